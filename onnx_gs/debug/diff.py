"""Explain how two models differ, whatever their tensors are called and in whatever order their nodes stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from onnx_gs.debug.alignment import operator
from onnx_gs.debug.matching import Matching
from onnx_gs.debug.weights import Weights, type_key, type_shown
from onnx_gs.ir import walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.faults import explained
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph, same_value
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        kind: ``added``, ``removed`` or ``changed``.
        what: ``node``, ``attribute``, ``input``, ``weight``, ``type``, ``interface``, ``opset``, ``metadata`` or ``function``.
        path: where it is, in the first model; in the second for what was added.
        detail: what it is: before and after.
        nodes: the nodes at fault, in the first and in the second model; None where there is none.
    """

    kind: str
    what: str
    path: str
    detail: str
    nodes: tuple[Node | None, Node | None] = field(default=(None, None), compare=False, repr=False)

    def __str__(self) -> str:
        """Show the change in a line."""
        sign = {"added": "+", "removed": "-", "changed": "~"}[self.kind]
        return f"{sign} {self.what}: {self.path}" + (f": {self.detail}" if self.detail else "")


@dataclass
class Difference:
    """All differences of two models; empty, and false, when there are none.

    Attributes:
        changes: one a difference.
        pairs: the nodes that belong together, bodies and functions included.
        stored_otherwise: how many constants are a ``Constant`` node in one model and an initializer in the other, which is no change by itself.
    """

    changes: list[Change] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list, repr=False)
    stored_otherwise: int = 0

    def __bool__(self) -> bool:
        """Say whether the models differ."""
        return bool(self.changes)

    def __str__(self) -> str:
        """Show the differences, one a line."""
        return "\n".join([*map(str, self.changes)] or ["no differences"]) + (f"\n({self.note})" if self.note else "")

    @property
    def note(self) -> str:
        """Tell of constants that are only stored in another way; empty where there are none."""
        if not self.stored_otherwise:
            return ""
        what = "1 constant is a Constant node" if self.stored_otherwise == 1 else f"{self.stored_otherwise:,} constants are Constant nodes"
        return f"{what} in one model and {'an initializer' if self.stored_otherwise == 1 else 'initializers'} in the other, with the same values"

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""
        changes = [{"kind": c.kind, "what": c.what, "path": c.path, "detail": c.detail} for c in self.changes]
        return {"different": bool(self), "changes": changes, "stored_otherwise": self.stored_otherwise}

    def as_html(self) -> str:
        """Give one self-contained page."""
        colors = {"added": "#e6ffec", "removed": "#ffebe9", "changed": "#fff8c5"}
        rows = "".join(
            f'<tr style="background:{colors[c.kind]}"><td>{c.kind}</td><td>{c.what}</td><td>{escape(c.path)}</td><td>{escape(c.detail)}</td></tr>'
            for c in self.changes
        )
        body = f"<table><tr><th>kind</th><th>what</th><th>where</th><th>detail</th></tr>{rows}</table>" if rows else "<p>no differences</p>"
        body += f"<p>{escape(self.note)}</p>" if self.note else ""
        style = "body{font:14px sans-serif}table{border-collapse:collapse}td,th{padding:4px 8px;text-align:left;border:1px solid #ddd}"
        return f"<!doctype html><html lang=en><meta charset=utf-8><title>model differences</title><style>{style}</style>{body}</html>"


def diff(before: Graph, after: Graph, *, tolerance: float | None = None, constants: bool = False) -> Difference:
    """List what was added, removed and changed between two models.

    Nodes are matched by what they compute from the inputs, then through their neighbors, then by name, so that renamed tensors and reordered
    nodes are no differences. Names of the models' inputs and outputs matter. A ``Constant`` node counts as the initializer that it could be.

    Args:
        before: the first model.
        after: the second.
        tolerance: largest absolute difference at which two float weights still count as equal; by default they must be equal.
        constants: tell of a ``Constant`` node as of any other node, also where the other model has an initializer with its value.

    Example:
        >>> import onnx_gs as gs
        >>> def model(op, inner):
        ...     x, h, y = gs.Variable("x"), gs.Variable(inner), gs.Variable("y")
        ...     return gs.Graph([gs.Node(op, inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y])
        >>> bool(diff(model("Neg", "h"), model("Neg", "other")))
        False
        >>> print(diff(model("Neg", "h"), model("Exp", "h")))
        ~ node: graph 'onnx_graphsurgeon_graph' > node #0 (Neg): operator Neg -> Exp
    """
    with collector_paused(), explained(before), explained(after):
        return _Diff(before, after, tolerance, constants=constants).run()


class _Place:
    """Where a node is, spelled only when something is noted about it."""

    def __init__(self, places: Places, graph: Graph, node: Node) -> None:
        self._at = (places, graph, node)

    def __str__(self) -> str:
        places, graph, node = self._at
        return places.node(graph, node)


class _Diff:
    def __init__(self, before: Graph, after: Graph, tolerance: float | None, *, constants: bool) -> None:
        self.before, self.after = before, after
        self.changes: list[Change] = []
        self.pairs: list[tuple[Node, Node]] = []
        self.places = (Places(before), Places(after))
        self.weights = Weights(before, after, tolerance, nodes=not constants)
        self.matching = Matching(before, after, self.weights)
        self._listed = {id(t) for root in (before, after) for graph in walk.graphs(root, functions=True) for t in graph.outputs}
        self._gone: set[Any] = set()
        self._new: set[int] = set()
        self._told: set[tuple[int, int]] = set()  # weights that were told about: one change a weight, however many nodes read it
        self._otherwise: set[int] = set()  # what Constant nodes give that is an initializer in the other model

    def note(self, kind: str, what: str, path: str | _Place, detail: str = "", nodes: tuple[Node | None, Node | None] = (None, None)) -> None:
        self.changes.append(Change(kind, what, str(path), detail, nodes))

    def run(self) -> Difference:
        self._facts()
        self._interface(self.before, self.after, public=True)
        self._graphs(self.before, self.after)
        ours, theirs = {f.key: f for f in self.before.functions}, {f.key: f for f in self.after.functions}
        for key in [k for k in ours if k not in theirs]:
            self.note("removed", "function", self.places[0].graph(ours[key]))
        for key in [k for k in theirs if k not in ours]:
            self.note("added", "function", self.places[1].graph(theirs[key]))
        for key in [k for k in ours if k in theirs]:
            self._interface(ours[key], theirs[key], public=False)
            self._graphs(ours[key], theirs[key])
        return Difference(self.changes, self.pairs, len(self._otherwise))

    # -- the model's own fields -------------------------------------------------------------------

    def _facts(self) -> None:
        a, b = self.before, self.after
        ours, theirs = a.opset_versions(), b.opset_versions()
        for domain in sorted(ours.keys() | theirs.keys()):
            if ours.get(domain) != theirs.get(domain):
                self.note("changed", "opset", f"domain '{domain}'", f"{ours.get(domain)} -> {theirs.get(domain)}")
        if a.ir_version != b.ir_version:
            self.note("changed", "metadata", "ir_version", f"{a.ir_version} -> {b.ir_version}")
        for name in ("doc_string", "producer_name", "producer_version"):
            if getattr(a, name) != getattr(b, name):
                self.note("changed", "metadata", name, f"{getattr(a, name)!r:.80} -> {getattr(b, name)!r:.80}")
        self._props("graph metadata", a.metadata_props, b.metadata_props)
        self._props("model metadata", a.model.metadata_props if a.model else {}, b.model.metadata_props if b.model else {})

    def _props(self, where: str | _Place, a: Mapping[str, str], b: Mapping[str, str], nodes: tuple[Node | None, Node | None] = (None, None)) -> None:
        for key in sorted(a.keys() | b.keys()):
            if a.get(key) != b.get(key):
                kind = "added" if key not in a else "removed" if key not in b else "changed"
                self.note(kind, "metadata", f"{where} '{key}'", f"{a.get(key)!r:.60} -> {b.get(key)!r:.60}", nodes)

    def _interface(self, a: Graph, b: Graph, *, public: bool) -> None:
        for what in ("inputs", "outputs"):
            ours, theirs = getattr(a, what), getattr(b, what)
            if public:
                mine, other = [t.name for t in ours], [t.name for t in theirs]
                if mine != other:
                    self.note("changed", "interface", what, f"{mine} -> {other}")
                ours_by, theirs_by = {t.name: t for t in ours}, {t.name: t for t in theirs}
                pairs = [(ours_by[n], theirs_by[n]) for n in mine if n in theirs_by]
            else:
                if len(ours) != len(theirs):
                    self.note("changed", "interface", f"{self.places[0].graph(a)} {what}", f"{len(ours)} -> {len(theirs)}")
                pairs = list(zip(ours, theirs))
            for x, y in pairs:
                if what == "inputs":
                    self.matching.tensors[id(x)] = y
                self._types(x, y, self.places[0].graph(a))

    def _types(self, x: Tensor, y: Tensor, where: str | _Place, nodes: tuple[Node | None, Node | None] = (None, None)) -> None:
        if type_key(x) != type_key(y):
            self.note("changed", "type", f"{where} > '{x.name}'", f"{type_shown(x)} -> {type_shown(y)}", nodes)

    # -- nodes ------------------------------------------------------------------------------------

    def _graphs(self, a: Graph, b: Graph) -> None:
        """Match the nodes of two graphs, and note the differences of each pair and of what has no partner."""
        pairs, removed, added = self.matching.match(a, b)
        removed, added = ([n for n in nodes if not self._holds_weight(n)] for nodes in (removed, added))
        self.pairs.extend(pairs)
        for node in removed:
            self.note("removed", "node", self.places[0].node(a, node), nodes=(node, None))
        for node in added:
            self.note("added", "node", self.places[1].node(b, node), nodes=(None, node))
        self._new.update(id(n) for n in added)
        self._gone.update(id(n) for n in removed)
        self._gone.update(self.matching.computed.get(id(t), b"") for n in removed for t in n._outputs)
        for x, y in pairs:
            self._pair(a, x, y)
        for at, (t, u) in enumerate(zip(a.outputs, b.outputs)):
            self._see_storage(t, u)
            if not self.matching.same_tensor(t, u) and not self._implied(t, u):
                self.note("changed", "input", f"{self.places[0].graph(a)} > output {at}", f"'{t.name}' now comes from elsewhere ('{u.name}')")

    def _holds_weight(self, node: Node) -> bool:
        """Say whether a node is only how a weight is stored, which its readers are compared by."""
        return any(self.weights.of(t) is not None and (t._outputs or id(t) in self._listed) for t in node._outputs)

    def _see_storage(self, t: Tensor, u: Tensor) -> None:
        """Count a constant that is a node in one model and an initializer in the other."""
        if isinstance(t, Constant) != isinstance(u, Constant) and self.weights.of(t) is not None and self.weights.of(u) is not None:
            self._otherwise.add(id(u) if isinstance(t, Constant) else id(t))

    def _implied(self, t: Tensor, u: Tensor) -> bool:
        """Say whether two tensors differ only by removed or added nodes, which are told about as such."""
        if any(id(n) in self._new for n in u._inputs):
            return True
        sources: dict[int, Tensor] = {}
        pending = [t]
        while pending and len(sources) < 1000:
            x = pending.pop()
            if id(x) not in sources:
                sources[id(x)] = x
                # Of several nodes that compute the same, any may be told to be the one removed.
                equal = self.matching.computed.get(id(x)) in self._gone
                pending.extend(i for n in x._inputs if equal or id(n) in self._gone for i in n._inputs if i._name)
        sources.pop(id(t))
        return any(self.matching.same_tensor(x, u) for x in sources.values())

    # -- a pair -----------------------------------------------------------------------------------

    def _pair(self, a: Graph, x: Node, y: Node) -> None:
        where, nodes = _Place(self.places[0], a, x), (x, y)
        if operator(x) != operator(y):
            self.note("changed", "node", where, f"operator {_operator_shown(x)} -> {_operator_shown(y)}", nodes)
        for name in sorted(x.attrs.keys() | y.attrs.keys()) if not self._hold_the_same(x, y) else ():
            self._attribute(where, name, x.attrs.get(name), y.attrs.get(name), missing=(name not in x.attrs, name not in y.attrs), nodes=nodes)
        mine, other = _without_tail(x._inputs), _without_tail(y._inputs)
        if len(mine) != len(other):
            self.note("changed", "input", where, f"{len(mine)} inputs -> {len(other)}", nodes)
        for k, (t, u) in enumerate(zip(mine, other)):
            self._see_storage(t, u)
            mine_held, other_held = self.weights.of(t), self.weights.of(u)
            if mine_held is not None and other_held is not None:
                if self.matching.tensors.get(id(t)) is not u:  # what two Constant nodes hold is told at the nodes
                    self._weight(where, t.name, mine_held, other_held, nodes)
            elif not self.matching.same_tensor(t, u) and not self._implied(t, u):
                self.note("changed", "input", where, f"input {k} '{t.name}' -> '{u.name}'", nodes)
        mine, other = _without_tail(x._outputs), _without_tail(y._outputs)
        if len(mine) != len(other):
            self.note("changed", "node", where, f"{len(mine)} outputs -> {len(other)}", nodes)
        for t, u in zip(mine, other):
            if t.name and u.name:
                self._types(t, u, where, nodes)
        if x.metadata_props != y.metadata_props:
            self._props(where, x.metadata_props, y.metadata_props, nodes)
        if x.doc_string != y.doc_string:
            self.note("changed", "metadata", where, f"doc string {x.doc_string!r:.40} -> {y.doc_string!r:.40}", nodes)

    def _hold_the_same(self, x: Node, y: Node) -> bool:
        """Say whether two ``Constant`` nodes hold the same, in whichever attributes."""
        if not (x.op == y.op == "Constant" and x._outputs and y._outputs):
            return False
        mine, other = self.weights.of(x._outputs[0]), self.weights.of(y._outputs[0])
        return mine is not None and other is not None and self.weights.agree(mine, other)

    def _weight(self, where: str | _Place, name: str, t: Constant, u: Constant, nodes: tuple[Node | None, Node | None]) -> None:
        if (id(t), id(u)) in self._told or self.weights.agree(t, u):
            return
        self._told.add((id(t), id(u)))
        self.note("changed", "weight", f"{where} > '{name}'" if name else where, self.weights.told(t, u), nodes)

    def _attribute(self, where: str | _Place, name: str, x: Any, y: Any, *, missing: tuple[bool, bool], nodes: tuple[Node, Node]) -> None:
        if any(missing):
            self.note("added" if missing[0] else "removed", "attribute", f"{where} > {name}", f"{_shown(y if missing[0] else x)}", nodes)
        elif is_graph(x) and is_graph(y):
            self._interface(x, y, public=False)
            self._graphs(x, y)
        elif isinstance(x, Constant) and isinstance(y, Constant):
            self._weight(f"{where} > {name}", x.name, x, y, nodes)
        elif isinstance(x, list) and isinstance(y, list) and any(map(is_graph, (*x, *y))):
            if len(x) != len(y):
                self.note("changed", "attribute", f"{where} > {name}", f"{len(x)} bodies -> {len(y)}", nodes)
            for at, (v, w) in enumerate(zip(x, y)):
                self._attribute(where, f"{name}[{at}]", v, w, missing=(False, False), nodes=nodes)
        elif not same_value(x, y):
            self.note("changed", "attribute", f"{where} > {name}", f"{_shown(x)} -> {_shown(y)}", nodes)


def _operator_shown(node: Node) -> str:
    name = node.op if node.domain in ONNX_DOMAINS else f"{node.domain}::{node.op}"
    return f"{name}:{node.overload}" if node.overload else name


def _without_tail(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Leave trailing omitted tensors out, which mean the same as none."""
    kept = list(tensors)
    while kept and not kept[-1]._name:
        kept.pop()
    return kept


def _shown(value: Any) -> str:
    if is_graph(value):
        return f"body of {sum(len(g.nodes) for g in walk.graphs(value))} nodes"
    return repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
