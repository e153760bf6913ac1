"""Explain how two models differ, whatever their tensors are called and in whatever order their nodes stand."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes, order, scopes, walk
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph, same_value
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.ir.values import LazyValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node


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
    """

    changes: list[Change] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list, repr=False)

    def __bool__(self) -> bool:
        """Say whether the models differ."""
        return bool(self.changes)

    def __str__(self) -> str:
        """Show the differences, one a line."""
        return "\n".join(map(str, self.changes)) if self.changes else "no differences"

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""
        return {"different": bool(self), "changes": [{"kind": c.kind, "what": c.what, "path": c.path, "detail": c.detail} for c in self.changes]}

    def as_html(self) -> str:
        """Give one self-contained page."""
        colors = {"added": "#e6ffec", "removed": "#ffebe9", "changed": "#fff8c5"}
        rows = "".join(
            f'<tr style="background:{colors[c.kind]}"><td>{c.kind}</td><td>{c.what}</td><td>{escape(c.path)}</td><td>{escape(c.detail)}</td></tr>'
            for c in self.changes
        )
        body = f"<table><tr><th>kind</th><th>what</th><th>where</th><th>detail</th></tr>{rows}</table>" if rows else "<p>no differences</p>"
        style = "body{font:14px sans-serif}table{border-collapse:collapse}td,th{padding:4px 8px;text-align:left;border:1px solid #ddd}"
        return f"<!doctype html><html lang=en><meta charset=utf-8><title>model differences</title><style>{style}</style>{body}</html>"


def diff(before: Graph, after: Graph, *, tolerance: float | None = None) -> Difference:
    """List what was added, removed and changed between two models.

    Nodes are matched by what they compute from the inputs, then through their neighbors, then by name, so that renamed tensors and reordered
    nodes are no differences. Names of the models' inputs and outputs matter.

    Args:
        before: the first model.
        after: the second.
        tolerance: largest absolute difference at which two float weights still count as equal; by default they must be equal.

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
    return _Diff(before, after, tolerance).run()


class _Diff:
    def __init__(self, before: Graph, after: Graph, tolerance: float | None) -> None:
        self.before, self.after, self.tolerance = before, after, tolerance
        self.changes: list[Change] = []
        self.pairs: list[tuple[Node, Node]] = []
        self.places = (Places(before), Places(after))
        self.tensors: dict[int, Tensor] = {}  # of before -> of after
        self.weights = _Weights(before, after, tolerance)
        self._hashed: tuple[set[bytes], set[bytes]] = (set(), set())  # hashes of computed tensors of each model
        self._computed: dict[int, bytes] = {}  # tensors with equal hashes have equal values, whichever equal nodes were paired
        self._sure: set[int] = set()  # nodes of before that were not paired with just one of several that are equal
        self._gone: set[Any] = set()
        self._new: set[int] = set()
        self._owns: dict[int, bytes] = {}
        self._told: set[tuple[int, int]] = set()  # weights that were told about: one change a weight, however many nodes read it

    def note(self, kind: str, what: str, path: str, detail: str = "", nodes: tuple[Node | None, Node | None] = (None, None)) -> None:
        self.changes.append(Change(kind, what, path, detail, nodes))

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
        return Difference(self.changes, self.pairs)

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

    def _props(self, where: str, a: Mapping[str, str], b: Mapping[str, str], nodes: tuple[Node | None, Node | None] = (None, None)) -> None:
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
                    self.tensors[id(x)] = y
                self._types(x, y, self.places[0].graph(a))

    def _types(self, x: Tensor, y: Tensor, where: str, nodes: tuple[Node | None, Node | None] = (None, None)) -> None:
        if _type_key(x) != _type_key(y):
            self.note("changed", "type", f"{where} > '{x.name}'", f"{_type_shown(x)} -> {_type_shown(y)}", nodes)

    # -- nodes ------------------------------------------------------------------------------------

    def _graphs(self, a: Graph, b: Graph) -> None:
        """Match the nodes of two graphs, and note the differences of each pair and of what has no partner."""
        pairs, removed, added = self._match(a, b)
        self.pairs.extend(pairs)
        for node in removed:
            self.note("removed", "node", self.places[0].node(a, node), nodes=(node, None))
        for node in added:
            self.note("added", "node", self.places[1].node(b, node), nodes=(None, node))
        self._new.update(id(n) for n in added)
        self._gone.update(id(n) for n in removed)
        self._gone.update(self._computed.get(id(t), b"") for n in removed for t in n._outputs)
        for x, y in pairs:
            self._pair(a, x, y)
        for at, (t, u) in enumerate(zip(a.outputs, b.outputs)):
            if not self._same_tensor(t, u) and not self._implied(t, u):
                self.note("changed", "input", f"{self.places[0].graph(a)} > output {at}", f"'{t.name}' now comes from elsewhere ('{u.name}')")

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
                equal = self._computed.get(id(x)) in self._gone  # of several nodes that compute the same, any may be told to be the one removed
                pending.extend(i for n in x._inputs if equal or id(n) in self._gone for i in n._inputs if i._name)
        sources.pop(id(t))
        return any(self._same_tensor(x, u) for x in sources.values())

    def _match(self, a: Graph, b: Graph) -> tuple[list[tuple[Node, Node]], list[Node], list[Node]]:
        free_a, free_b = {id(n): n for n in a.nodes}, {id(n): n for n in b.nodes}
        matched: dict[int, Node] = {}

        def pair(x: Node, y: Node, *, sure: bool = True) -> None:
            matched[id(x)] = y
            if sure:
                self._sure.add(id(x))
            free_a.pop(id(x))
            free_b.pop(id(y))
            for t, u in zip(x._outputs, y._outputs):
                self.tensors[id(t)] = u

        def pair_equal(key: Callable[[Node, int], Any], *, unique: bool = False, balanced: bool = False, named: bool = False) -> None:
            """Pair free nodes of equal keys, in order; a key of None has no partner."""
            sides: tuple[dict[Any, list[Node]], dict[Any, list[Node]]] = (defaultdict(list), defaultdict(list))
            for side, free in enumerate((free_a, free_b)):
                for node in free.values():
                    if (found := key(node, side)) is not None:
                        sides[side][found].append(node)
            for found, nodes in sides[0].items():
                others = sides[1].get(found, [])
                if (not unique or len(nodes) == len(others) == 1) and (not balanced or len(nodes) == len(others)):
                    for x, y in zip(nodes, others):
                        pair(x, y, sure=named or len(nodes) == len(others) == 1)

        forward = (self._hashes(a, 0), self._hashes(b, 1))
        # Of several nodes that compute the same, those of one name belong together, else those whose results go to the same places, else those of
        # equal notes and types. Where one model has more of them than the other, their neighbors have to tell which is new.
        pair_equal(lambda n, side: (forward[side][id(n)], n.name, _types_of(n)), named=True)
        if free_a and free_b:
            context = (_contexts(a), _contexts(b))
            pair_equal(lambda n, side: (forward[side][id(n)], context[side][id(n)], _notes(n), _types_of(n)))
            pair_equal(lambda n, side: (forward[side][id(n)], _notes(n), _types_of(n)), balanced=True)
            pair_equal(lambda n, side: (forward[side][id(n)], _types_of(n)), balanced=True)
        if free_a and free_b:
            self._match_rest(a, b, matched, free_a, free_b, pair, pair_equal, context, forward)
        pairs = [(n, matched[id(n)]) for n in a.nodes if id(n) in matched]
        return pairs, [n for n in a.nodes if id(n) in free_a], [n for n in b.nodes if id(n) in free_b]

    def _match_rest(
        self, a: Graph, b: Graph, matched: dict[int, Node], free_a: dict[int, Node], free_b: dict[int, Node], pair: Any, pair_equal: Any,
        context: tuple[dict[int, bytes], dict[int, bytes]], forward: tuple[dict[int, bytes], dict[int, bytes]],
    ) -> None:  # fmt: skip
        """Match what does not compute the same: by name where names can be trusted, by own weights and attributes, by neighbors."""
        named = {n.name for n in b.nodes if n.name}
        kept = sum(n.name in named for n in a.nodes if n.name)
        disagree = sum(bool(n.name) and n.name != matched[id(n)].name for n in a.nodes if id(n) in matched)
        trusted = kept > len(a.nodes) // 2 and disagree <= len(matched) // 4

        def spread(*, sure: bool = True) -> None:
            anchors = [(n, matched[id(n)]) for n in a.nodes if id(n) in matched and (not sure or id(n) in self._sure)]
            self._spread(a, b, anchors, free_a, free_b, pair, context)

        if trusted:
            pair_equal(lambda n, _: (n.name, n.op, n.domain or "") if n.name else None, unique=True)
        pair_equal(lambda n, side: self._own(n, side) if _has_weight(n) else None, unique=True)
        pair_equal(lambda n, side: (self._own(n, side), context[side][id(n)]), unique=True)
        pair_equal(lambda n, _: (_operator(n), tuple(_type_key(t) for t in n._inputs)) if _reads_only_weights(n) else None, unique=True)
        spread()
        self._bridge(a, b, matched, free_a, free_b, pair, context)
        pair_equal(lambda n, side: (forward[side][id(n)], _types_of(n)))
        pair_equal(lambda n, side: forward[side][id(n)])
        spread(sure=False)
        if trusted:
            pair_equal(lambda n, _: n.name or None, unique=True)
            spread(sure=False)
        self._swap_operators(a, matched, free_a, free_b, pair)
        spread(sure=False)

    def _own(self, node: Node, side: int) -> bytes:
        """Hash what a node has of its own: operator, attributes, weights."""
        found = self._owns.get(id(node))
        if found is None:
            digest = hashlib.blake2b(_operator(node), digest_size=16)
            for t in node._inputs:
                digest.update(self.weights.hash(t) if isinstance(t, Constant) else b"computed" if t._name else b"none")
            for name in sorted(node.attrs):
                if not is_graph(node.attrs[name]):
                    digest.update(b"@" + name.encode() + self._attribute_hash(node.attrs[name], side, ()))
            found = self._owns[id(node)] = digest.digest()
        return found

    def _spread(
        self, a: Graph, b: Graph, anchors: list[tuple[Node, Node]], free_a: dict[int, Node], free_b: dict[int, Node], pair: Any,
        context: tuple[dict[int, bytes], dict[int, bytes]],
    ) -> None:  # fmt: skip
        """Match nodes of one operator that stand at the same place beside a matched pair, until nothing is added."""
        pending = list(anchors)
        ends = list(zip(a.outputs, b.outputs))

        def try_pair(x: Node, y: Node) -> None:
            if id(x) in free_a and id(y) in free_b and x.op == y.op and (x.domain or "") == (y.domain or ""):
                pair(x, y)
                pending.append((x, y))

        for t, u in ends:
            for x, y in zip(t._inputs, u._inputs):
                try_pair(x, y)
        starts = [(t, self.tensors[id(t)]) for t in a.inputs if id(t) in self.tensors]
        while pending or starts:
            if starts:
                t, u = starts.pop()
                self._readers(t, u, free_a, free_b, try_pair, context)
                continue
            x, y = pending.pop()
            for t, u in zip(x._inputs, y._inputs):
                for p, q in zip(t._inputs, u._inputs):
                    try_pair(p, q)
            starts.extend(zip(x._outputs, y._outputs))

    def _bridge(
        self, a: Graph, b: Graph, matched: dict[int, Node], free_a: dict[int, Node], free_b: dict[int, Node], pair: Any,
        context: tuple[dict[int, bytes], dict[int, bytes]],
    ) -> None:  # fmt: skip
        """Go on behind nodes that only one model has: where two chains of single readers run alike again, their nodes belong together."""
        fresh = [(n, matched[id(n)]) for n in a.nodes if id(n) in matched and id(n) in self._sure]
        while fresh:
            found: list[tuple[Node, Node]] = []
            seen: set[int] = set()  # chains that flow together are walked once
            for x, y in fresh:
                ours = _chain(x, free_a, seen)
                theirs = _chain(y, free_b, set()) if ours else []
                for ends in _aligned(ours, theirs, matched) or _realigned(ours[:FAR], theirs[:FAR]):
                    pair(*ends)
                    found.append(ends)
            before = set(matched)
            self._spread(a, b, found, free_a, free_b, pair, context)
            fresh = found + [(n, matched[id(n)]) for n in a.nodes if id(n) in matched and id(n) not in before] if found else []

    def _readers(
        self, t: Tensor, u: Tensor, free_a: dict[int, Node], free_b: dict[int, Node], try_pair: Any,
        context: tuple[dict[int, bytes], dict[int, bytes]],
    ) -> None:  # fmt: skip
        """Match the free readers of two tensors that belong together: of several, those that are most alike."""

        def places(tensor: Tensor, free: dict[int, Node]) -> dict[tuple[bytes, int], list[Node]]:
            found: dict[tuple[bytes, int], list[Node]] = defaultdict(list)
            for node in {id(n): n for n in tensor._outputs if id(n) in free}.values():
                found[(_operator(node), next(k for k, x in enumerate(node._inputs) if x is tensor))].append(node)
            return found

        def likeness(x: Node, y: Node) -> int:
            alike = sum(self._seems_same(p, q) for p, q in zip(x._inputs, y._inputs))
            return 4 * (context[0].get(id(x)) == context[1].get(id(y))) + 2 * (self._own(x, 0) == self._own(y, 1)) + alike

        ours, theirs = places(t, free_a), places(u, free_b)
        for key, nodes in ours.items():
            others = theirs.get(key, [])
            if len(nodes) * len(others) > MOST_COMPARED:
                exact = {(self._own(y, 1), context[1].get(id(y))): y for y in others}
                for x in nodes:
                    if (y := exact.get((self._own(x, 0), context[0].get(id(x))))) is not None:
                        try_pair(x, y)
                continue
            ranked = sorted(((likeness(x, y), -i, -j) for i, x in enumerate(nodes) for j, y in enumerate(others)), reverse=True)
            for score, i, j in ranked:
                if len(nodes) == len(others) or score >= 4:
                    try_pair(nodes[-i], others[-j])

    def _seems_same(self, t: Tensor, u: Tensor) -> bool:
        if isinstance(t, Constant) and isinstance(u, Constant):
            return self.weights.hash(t) == self.weights.hash(u)
        return self.tensors.get(id(t)) is u or (id(t) in self._computed and self._computed[id(t)] == self._computed.get(id(u)))

    def _swap_operators(self, a: Graph, matched: dict[int, Node], free_a: dict[int, Node], free_b: dict[int, Node], pair: Any) -> None:
        """Match a node whose operator was exchanged: its readers or its inputs say where it stands."""
        for node in [n for n in a.nodes if id(n) in free_a]:
            candidates: dict[int, tuple[int, Node]] = {}
            for t in node._outputs:
                for reader in t._outputs:
                    twin = matched.get(id(reader))
                    if twin is None or len(twin._inputs) != len(reader._inputs):
                        continue
                    for k, x in enumerate(reader._inputs):
                        if x is t:
                            for p in twin._inputs[k]._inputs:
                                if id(p) in free_b:
                                    candidates[id(p)] = (candidates.get(id(p), (0, p))[0] + 1, p)
            for t in node._inputs:
                u = self.tensors.get(id(t))
                for p in u._outputs if u is not None else ():
                    if id(p) in free_b:
                        candidates[id(p)] = (candidates.get(id(p), (0, p))[0] + 1, p)
            form = (len(node._inputs), len(node._outputs))
            fitting = [(score, p) for score, p in candidates.values() if (len(p._inputs), len(p._outputs)) == form]
            if fitting:
                pair(node, max(fitting, key=lambda entry: entry[0])[1])

    def _hashes(self, graph: Graph, side: int, outer: Scopes = ()) -> dict[int, bytes]:
        """Hash every node by what it computes from the graph's inputs and from what is outside."""
        values: dict[int, bytes] = {}
        root = graph is (self.before, self.after)[side]
        for at, t in enumerate(graph.inputs):
            values[id(t)] = b"input:" + t.name.encode() if root else b"formal:%d:%d" % (len(outer), at)
        visible = (*outer, values)
        found: dict[int, bytes] = {}
        for node in _in_order(graph):
            digest = hashlib.blake2b(_operator(node) + b"|%d" % len(node._outputs), digest_size=16)
            for t in node._inputs:
                digest.update(b"," + self._value_hash(t, visible, side))
            for name in sorted(node.attrs):
                digest.update(b"@" + name.encode() + self._attribute_hash(node.attrs[name], side, visible))
            here = found[id(node)] = digest.digest()
            for k, t in enumerate(node._outputs):
                values[id(t)] = here + b":%d" % k
                if not outer:
                    self._computed[id(t)] = values[id(t)]
                    self._hashed[side].add(values[id(t)])
        return found

    def _value_hash(self, t: Tensor, visible: Scopes, side: int) -> bytes:
        if not t._name:
            return b"none"
        for values in reversed(visible):
            known = values.get(id(t))
            if known is not None:
                return known
        if isinstance(t, Constant):
            return self.weights.hash(t)
        equal = self._computed.get(id(t))
        if equal is not None and equal in self._hashed[1 - side]:
            return equal
        if side == 0:
            return b"outer:%d" % id(self.tensors[id(t)]) if id(t) in self.tensors else b"unknown:" + t._name.encode()
        return b"outer:%d" % id(t)

    def _attribute_hash(self, value: Any, side: int, visible: Scopes) -> bytes:
        if is_graph(value):
            inner: dict[int, bytes] = {}
            nodes = self._hashes(value, side, (*visible, inner))
            for node in value.nodes:
                inner.update((id(t), nodes[id(node)] + b":%d" % k) for k, t in enumerate(node._outputs))
            inner.update((id(t), b"formal:%d:%d" % (len(visible) + 1, at)) for at, t in enumerate(value.inputs))
            digest = hashlib.blake2b(b"body", digest_size=16)
            for t in value.outputs:
                digest.update(b";" + self._value_hash(t, (*visible, inner), side))
            for here in sorted(nodes.values()):  # also what nothing reads; in whatever order
                digest.update(here)
            return digest.digest()
        if isinstance(value, Constant):
            return self.weights.hash(value)
        if isinstance(value, (list, tuple)):
            return b"[" + b",".join(self._attribute_hash(v, side, visible) for v in value) + b"]"
        if isinstance(value, np.ndarray):
            return str((value.dtype, value.shape)).encode() + value.tobytes()
        return repr(value).encode()

    # -- a pair -----------------------------------------------------------------------------------

    def _pair(self, a: Graph, x: Node, y: Node) -> None:
        where, nodes = self.places[0].node(a, x), (x, y)
        if _operator(x) != _operator(y):
            self.note("changed", "node", where, f"operator {_operator_shown(x)} -> {_operator_shown(y)}", nodes)
        for name in sorted(x.attrs.keys() | y.attrs.keys()):
            self._attribute(where, name, x.attrs.get(name), y.attrs.get(name), missing=(name not in x.attrs, name not in y.attrs), nodes=nodes)
        mine, other = _without_tail(x._inputs), _without_tail(y._inputs)
        if len(mine) != len(other):
            self.note("changed", "input", where, f"{len(mine)} inputs -> {len(other)}", nodes)
        for k, (t, u) in enumerate(zip(mine, other)):
            if isinstance(t, Constant) and isinstance(u, Constant):
                self._weight(where, t, u, nodes)
            elif not self._same_tensor(t, u) and not self._implied(t, u):
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

    def _same_tensor(self, t: Tensor, u: Tensor) -> bool:
        if not t._name or not u._name:
            return not t._name and not u._name
        if isinstance(t, Constant) and isinstance(u, Constant):
            return self.weights.agree(t, u)
        if self.tensors.get(id(t)) is u:
            return True
        return id(t) in self._computed and self._computed[id(t)] == self._computed.get(id(u))

    def _weight(self, where: str, t: Constant, u: Constant, nodes: tuple[Node | None, Node | None]) -> None:
        if (id(t), id(u)) in self._told or self.weights.agree(t, u):
            return
        self._told.add((id(t), id(u)))
        self.note("changed", "weight", f"{where} > '{t.name}'", self.weights.told(t, u), nodes)

    def _attribute(self, where: str, name: str, x: Any, y: Any, *, missing: tuple[bool, bool], nodes: tuple[Node, Node]) -> None:
        path = f"{where} > {name}"
        if any(missing):
            self.note("added" if missing[0] else "removed", "attribute", path, f"{_shown(y if missing[0] else x)}", nodes)
        elif is_graph(x) and is_graph(y):
            self._interface(x, y, public=False)
            self._graphs(x, y)
        elif isinstance(x, Constant) and isinstance(y, Constant):
            self._weight(path, x, y, nodes)
        elif isinstance(x, list) and isinstance(y, list) and any(map(is_graph, (*x, *y))):
            if len(x) != len(y):
                self.note("changed", "attribute", path, f"{len(x)} bodies -> {len(y)}", nodes)
            for at, (v, w) in enumerate(zip(x, y)):
                self._attribute(where, f"{name}[{at}]", v, w, missing=(False, False), nodes=nodes)
        elif not same_value(x, y):
            self.note("changed", "attribute", path, f"{_shown(x)} -> {_shown(y)}", nodes)


class _Weights:
    """Weights of two models: hashed, compared and described a few megabytes at a time; what is in one place of one file is not read at all."""

    def __init__(self, before: Graph, after: Graph, tolerance: float | None) -> None:
        self.tolerance = tolerance
        self._hashes: dict[int, bytes] = {}
        self._contents: dict[int, bytes] = {}
        self._agree: dict[tuple[int, int], bool] = {}
        self._kept: list[Constant] = []  # what is keyed by id stays alive
        sides = [{_region(t) for t in _stored(graph)} for graph in (before, after)]
        self._shared = (sides[0] & sides[1]) - {None}

    def hash(self, t: Constant) -> bytes:
        """Hash a weight by its place where both models refer to that place, else by its values."""
        found = self._hashes.get(id(t))
        if found is None:
            region = _region(t)
            found = repr((region, _type_key(t))).encode() if region in self._shared else self._content(t)
            self._hashes[id(t)] = found
            self._kept.append(t)
        return found

    def _content(self, t: Constant) -> bytes:
        found = self._contents.get(id(t))
        if found is None:
            digest = hashlib.blake2b(repr(_type_key(t)).encode(), digest_size=16)
            values = _values(t).reshape(-1)
            for part in _parts(values):
                digest.update(repr(part.tolist()).encode() if values.dtype == object else np.ascontiguousarray(part).view(np.uint8).data)
            found = self._contents[id(t)] = b"w" + digest.digest()
            self._kept.append(t)
        return found

    def agree(self, t: Constant, u: Constant) -> bool:
        """Say whether two weights are equal, or as close as the tolerance asks."""
        if t is u:
            return True
        key = (id(t), id(u))
        if key not in self._agree:
            self._agree[key] = self._compare(t, u)
            self._kept.extend((t, u))
        return self._agree[key]

    def _compare(self, t: Constant, u: Constant) -> bool:
        if _type_key(t) != _type_key(u):
            return False
        if self.hash(t) == self.hash(u) or self._content(t) == self._content(u):
            return True
        x, y = _values(t), _values(u)
        if x.dtype.kind == "f" and all(np.array_equal(v, w, equal_nan=True) for v, w in zip(_parts(x.reshape(-1)), _parts(y.reshape(-1)))):
            return True  # zeros of either sign, NaNs of any content
        if self.tolerance is None or not _is_float(x):
            return False
        pairs = zip(_parts(x.reshape(-1)), _parts(y.reshape(-1)))
        return all(np.allclose(v.astype(np.float64), w.astype(np.float64), rtol=0, atol=self.tolerance, equal_nan=True) for v, w in pairs)

    def told(self, t: Constant, u: Constant) -> str:
        """Say how two weights differ."""
        if _type_key(t) != _type_key(u):
            return f"{_type_shown(t)} -> {_type_shown(u)}"
        x, y = _values(t).reshape(-1), _values(u).reshape(-1)
        apart, most = 0, 0.0
        for v, w in zip(_parts(x), _parts(y)):
            differ = v != w
            if _is_float(x):
                v, w = v.astype(np.float64), w.astype(np.float64)
                differ &= ~(np.isnan(v) & np.isnan(w))
            apart += int(np.count_nonzero(differ))
            if x.dtype.kind not in "OUSbc" and differ.any():
                with np.errstate(all="ignore"):
                    gap = np.abs(v.astype(np.float64) - w.astype(np.float64))[differ]
                most = max(most, float(np.where(np.isnan(gap), np.inf, gap).max()))
        return f"{apart} of {x.size} elements differ" + (f", by at most {most:.3g}" if x.dtype.kind not in "OUSbc" else "")


Scopes = tuple[dict[int, bytes], ...]
PART = 1 << 22
FAR = 16  # how far to look along a chain for where it runs alike again
MOST_COMPARED = 4096  # of readers of one tensor, each against each


def _stored(root: Graph) -> Iterable[Constant]:
    for graph in walk.graphs(root, functions=True):
        for t in walk.tensors(graph):
            if isinstance(t, Constant):
                yield t
        for node in graph.nodes:
            if node.op == "Constant":
                yield from (v for v in node.attrs.values() if isinstance(v, Constant))


def _region(t: Constant) -> tuple[Any, ...] | None:
    """Give the place of a weight that a file holds: file, offset, length; None for others."""
    values = t._values if t._origin is None else t.lazy
    region = getattr(values, "region", None)
    return None if region is None or type(region).__name__ == "tuple" else (*region.file.identity, region.offset, region.length)


def _values(t: Constant) -> np.ndarray[Any, Any]:
    """Give a weight's values; what was not read before is not kept."""
    values = t._values
    return np.asarray(values.load() if isinstance(values, LazyValues) else values)


def _parts(flat: np.ndarray[Any, Any]) -> Iterable[np.ndarray[Any, Any]]:
    return (flat[at : at + PART] for at in range(0, flat.size, PART))


def _is_float(values: np.ndarray[Any, Any]) -> bool:
    known = dtypes.find(values.dtype)
    return known is not None and "float" in known.numpy.name


def _operator(node: Node) -> bytes:
    return f"{'' if node.domain in ONNX_DOMAINS else node.domain}|{node.op}|{node.overload}".encode()


def _reads_only_weights(node: Node) -> bool:
    return bool(node._inputs) and all(isinstance(t, Constant) for t in node._inputs)


def _chain(node: Node, free: dict[int, Node], seen: set[int]) -> list[Node]:
    """List the free nodes behind one, each the only reader of the one before, up to one that was seen before."""
    found: list[Node] = []
    while True:
        readers = {id(n): n for t in node._outputs for n in t._outputs}
        if len(readers) != 1 or not readers.keys() <= free.keys() or not seen.isdisjoint(readers):
            break
        node = next(iter(readers.values()))
        seen.add(id(node))
        found.append(node)
    return found


def _aligned(ours: list[Node], theirs: list[Node], matched: dict[int, Node]) -> list[tuple[Node, Node]]:
    """Pair the nodes of two chains that end at one place so that the fewest are removed, added or exchanged; nothing where that takes many.

    The furthest that each diagonal reaches with so many edits (Landau and Vishkin), since few edits are the rule.
    """
    if not ours or not theirs:
        return []
    after = [{id(n): n for t in chain[-1]._outputs for n in t._outputs} for chain in (ours, theirs)]
    if {id(matched.get(key)) for key in after[0]} != set(after[1]):
        return []
    a, b = [_operator(n) for n in ours], [_operator(n) for n in theirs]
    reach: list[dict[int, tuple[int, int]]] = []  # by edits, by diagonal: how far in a, and from which diagonal
    for edits in range(min(FAR, max(len(a), len(b))) + 1):
        row: dict[int, tuple[int, int]] = {}
        for diagonal in range(-edits, edits + 1):
            if edits:
                last = reach[-1]
                steps = [(last[diagonal + d][0] + step, diagonal + d) for d, step in ((0, 1), (-1, 0), (1, 1)) if diagonal + d in last]
                at, origin = max(steps, default=(-1, 0))
            else:
                at, origin = 0, 0
            at = min(at, len(a), len(b) - diagonal)
            if at < 0 or at + diagonal < 0:
                continue
            while at < len(a) and at + diagonal < len(b) and a[at] == b[at + diagonal]:
                at += 1
            row[diagonal] = (at, origin)
        reach.append(row)
        if row.get(len(b) - len(a), (0, 0))[0] == len(a):
            return _walked_back(ours, theirs, reach)
    return []


def _walked_back(ours: list[Node], theirs: list[Node], reach: list[dict[int, tuple[int, int]]]) -> list[tuple[Node, Node]]:
    pairs: list[tuple[Node, Node]] = []
    diagonal, end = len(theirs) - len(ours), len(ours)
    for edits in range(len(reach) - 1, -1, -1):
        origin = reach[edits][diagonal][1]
        begin = reach[edits - 1][origin][0] if edits else 0
        start = begin + (1 if origin >= diagonal and edits else 0)  # where the run of equal nodes behind the edit begins
        pairs.extend((ours[at], theirs[at + diagonal]) for at in range(start, end))
        if edits and origin == diagonal:  # exchanged
            pairs.append((ours[begin], theirs[begin + diagonal]))
        diagonal, end = origin, begin
    return pairs[::-1]


def _realigned(ours: list[Node], theirs: list[Node]) -> list[tuple[Node, Node]]:
    """Give the first nodes from which two chains run alike, when a few of one or of both are left out."""
    short = len(ours) < FAR and len(theirs) < FAR
    for least in (2, 1) if short else (2,):
        for left_out in range(1, FAR // 2):
            for mine in range(left_out + 1):
                tail, other = ours[mine:], theirs[left_out - mine :]
                length = min(len(tail), len(other), FAR // 2)
                if length >= least and all(_operator(x) == _operator(y) for x, y in zip(tail[:length], other)):
                    return [(tail[0], other[0])]
    return []


def _types_of(node: Node) -> tuple[Any, ...]:
    return tuple(_type_key(t) for t in node._outputs)


def _notes(node: Node) -> tuple[str, str]:
    return (node.doc_string, str(sorted(node.metadata_props.items())))


def _has_weight(node: Node) -> bool:
    return node.op == "Constant" or any(isinstance(t, Constant) for t in node._inputs)


def _contexts(graph: Graph) -> dict[int, bytes]:
    """Hash, by node, where its results go: through which operators, at which inputs, to which outputs of the graph."""
    uses: dict[int, list[bytes]] = defaultdict(list)
    for at, t in enumerate(graph.outputs):
        uses[id(t)].append(b"output:%d" % at)
    captured = scopes.all_captures(graph)
    found: dict[int, bytes] = {}
    for node in reversed(_in_order(graph)):
        digest = hashlib.blake2b(digest_size=12)
        for t in node._outputs:
            digest.update(b";" + b",".join(sorted(uses.get(id(t), ()))))
        here = found[id(node)] = digest.digest()
        name = _operator(node)
        for k, t in enumerate(node._inputs):
            uses[id(t)].append(name + b":%d:" % k + here)
        for t in captured.get(id(node), ()):
            uses[id(t)].append(name + b":body:" + here)
    return found


def _operator_shown(node: Node) -> str:
    name = node.op if node.domain in ONNX_DOMAINS else f"{node.domain}::{node.op}"
    return f"{name}:{node.overload}" if node.overload else name


def _in_order(graph: Graph) -> list[Node]:
    """List a graph's nodes in topological order; the graph stays as it is."""
    shell = object.__new__(type(graph))
    shell.__dict__.update(graph.__dict__)
    order.sort_nodes(shell)
    return shell.nodes


def _without_tail(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Leave trailing omitted tensors out, which mean the same as none."""
    kept = list(tensors)
    while kept and not kept[-1]._name:
        kept.pop()
    return kept


def _type_key(t: Tensor) -> tuple[Any, ...]:
    known = dtypes.of(t)
    return (getattr(t, "type", "tensor_type"), known.name if known else None, None if t.shape is None else tuple(t.shape))


def _type_shown(t: Tensor) -> str:
    kind, name, shape = _type_key(t)
    text = f"{name}{'' if shape is None else list(shape)}"
    return text if kind == "tensor_type" else f"{kind.removesuffix('_type')}({text})"


def _shown(value: Any) -> str:
    if is_graph(value):
        return f"body of {sum(len(g.nodes) for g in walk.graphs(value))} nodes"
    return repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."


def match_tensors(before: Graph, after: Graph) -> dict[int, Tensor]:
    """Map the ``id`` of each tensor of the first model's main graph to the tensor of the second that stands in its place."""
    matching = _Diff(before, after, None)
    theirs = {t.name: t for t in after.inputs}
    for t in before.inputs:
        if t.name in theirs:
            matching.tensors[id(t)] = theirs[t.name]
    matching._match(before, after)
    return matching.tensors
