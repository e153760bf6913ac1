"""Explain how two models differ, whatever their tensors are called and in whatever order their nodes stand."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph, same_value
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """

    kind: str
    what: str
    path: str
    detail: str

    def __str__(self) -> str:
        """Show the change in a line."""
        sign = {"added": "+", "removed": "-", "changed": "~"}[self.kind]
        return f"{sign} {self.what}: {self.path}" + (f": {self.detail}" if self.detail else "")


@dataclass
class Difference:
    """All differences of two models; empty, and false, when there are none."""

    changes: list[Change] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Say whether the models differ."""
        return bool(self.changes)

    def __str__(self) -> str:
        """Show the differences, one a line."""
        return "\n".join(map(str, self.changes)) if self.changes else "no differences"

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""
        return {"different": bool(self), "changes": [asdict(c) for c in self.changes]}

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
        self.places = (Places(before), Places(after))
        self.tensors: dict[int, Tensor] = {}  # of before -> of after
        self._weights: dict[int, bytes] = {}
        self._computed: dict[int, bytes] = {}  # tensors with equal hashes have equal values, whichever equal nodes were paired
        self._kept: list[Any] = []

    def note(self, kind: str, what: str, path: str, detail: str = "") -> None:
        self.changes.append(Change(kind, what, path, detail))

    def run(self) -> Difference:
        self._facts()
        self._interface(self.before, self.after, public=True)
        self._graphs(self.before, self.after)
        ours, theirs = {f.key: f for f in self.before.functions}, {f.key: f for f in self.after.functions}
        for key in ours.keys() - theirs.keys():
            self.note("removed", "function", self.places[0].graph(ours[key]))
        for key in theirs.keys() - ours.keys():
            self.note("added", "function", self.places[1].graph(theirs[key]))
        for key in [k for k in ours if k in theirs]:
            self._interface(ours[key], theirs[key], public=False)
            self._graphs(ours[key], theirs[key])
        return Difference(self.changes)

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

    def _props(self, where: str, a: dict[str, str], b: dict[str, str]) -> None:
        for key in sorted(a.keys() | b.keys()):
            if a.get(key) != b.get(key):
                kind = "added" if key not in a else "removed" if key not in b else "changed"
                self.note(kind, "metadata", f"{where} '{key}'", f"{a.get(key)!r:.60} -> {b.get(key)!r:.60}")

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

    def _types(self, x: Tensor, y: Tensor, where: str) -> None:
        mine, other = (x.dtype and dtypes.of(x), _dims(x)), (y.dtype and dtypes.of(y), _dims(y))
        if mine != other:
            def shown(t: Tensor) -> str:
                known = dtypes.of(t)
                return f"{known.name if known else None}{_dims(t)}"

            self.note("changed", "type", f"{where} > '{x.name}'", f"{shown(x)} -> {shown(y)}")

    # -- nodes ------------------------------------------------------------------------------------

    def _graphs(self, a: Graph, b: Graph) -> None:
        """Match the nodes of two graphs, and note the differences of each pair and of what has no partner."""
        pairs, removed, added = self._match(a, b)
        for node in removed:
            self.note("removed", "node", self.places[0].node(a, node))
        for node in added:
            self.note("added", "node", self.places[1].node(b, node))
        new_outputs = {id(t) for n in added for t in n._outputs}
        for x, y in pairs:
            self._pair(a, b, x, y, new_outputs)
        for at, (x, y) in enumerate(zip(a.outputs, b.outputs)):
            if not self._same_tensor(x, y):
                self.note("changed", "input", f"{self.places[0].graph(a)} > output {at}", f"'{x.name}' now comes from elsewhere ('{y.name}')")

    def _match(self, a: Graph, b: Graph) -> tuple[list[tuple[Node, Node]], list[Node], list[Node]]:
        free_a, free_b = {id(n): n for n in a.nodes}, {id(n): n for n in b.nodes}
        matched: dict[int, Node] = {}

        def pair(x: Node, y: Node) -> None:
            matched[id(x)] = y
            free_a.pop(id(x))
            free_b.pop(id(y))
            for t, u in zip(x._outputs, y._outputs):
                self.tensors[id(t)] = u

        forward_a, forward_b = self._hashes(a, 0), self._hashes(b, 1)
        # Of several nodes that compute the same, those of one name belong together, else those of equal metadata.
        for tag in (lambda n: n.name, lambda n: (n.doc_string, sorted(n.metadata_props.items())), lambda _: ""):
            by_hash: dict[tuple[bytes, str], list[Node]] = defaultdict(list)
            for node in reversed(free_b.values()):
                by_hash[(forward_b[id(node)], str(tag(node)))].append(node)
            for node in list(free_a.values()):
                same = by_hash.get((forward_a[id(node)], str(tag(node))))
                if same:
                    pair(node, same.pop())
        self._spread(a, b, matched, free_a, free_b, pair)
        for strict in (True, False):
            named = {n.name: n for n in free_b.values() if n.name}
            for node in list(free_a.values()):
                other = named.get(node.name) if node.name else None
                if other is not None and id(other) in free_b and (not strict or other.op == node.op):
                    pair(node, other)
            self._spread(a, b, matched, free_a, free_b, pair)
        self._swap_operators(a, matched, free_a, free_b, pair)
        self._spread(a, b, matched, free_a, free_b, pair)
        return [(n, matched[id(n)]) for n in a.nodes if id(n) in matched], [n for n in a.nodes if id(n) in free_a], [n for n in b.nodes if id(n) in free_b]

    def _spread(self, a: Graph, b: Graph, matched: dict[int, Node], free_a: dict[int, Node], free_b: dict[int, Node], pair: Any) -> None:
        """Match nodes of one operator that stand at the same place beside a matched pair, until nothing is added."""
        pending = [(n, matched[id(n)]) for n in a.nodes if id(n) in matched]
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
                self._readers(t, u, free_a, free_b, try_pair)
                continue
            x, y = pending.pop()
            for t, u in zip(x._inputs, y._inputs):
                for p, q in zip(t._inputs, u._inputs):
                    try_pair(p, q)
            starts.extend(zip(x._outputs, y._outputs))

    def _readers(self, t: Tensor, u: Tensor, free_a: dict[int, Node], free_b: dict[int, Node], try_pair: Any) -> None:
        def places(tensor: Tensor, free: dict[int, Node]) -> dict[tuple[str, int], list[Node]]:
            found: dict[tuple[str, int], list[Node]] = defaultdict(list)
            for node in {id(n): n for n in tensor._outputs if id(n) in free}.values():
                found[(node.op, next(k for k, x in enumerate(node._inputs) if x is tensor))].append(node)
            return found

        ours, theirs = places(t, free_a), places(u, free_b)
        for key, nodes in ours.items():
            others = theirs.get(key, [])
            if len(nodes) == len(others):
                for x, y in zip(nodes, others):
                    try_pair(x, y)

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
            fitting = [(score, p) for score, p in candidates.values() if len(p._inputs) == len(node._inputs) and len(p._outputs) == len(node._outputs)]
            if fitting:
                pair(node, max(fitting, key=lambda entry: entry[0])[1])

    def _hashes(self, graph: Graph, side: int) -> dict[int, bytes]:
        """Hash every node by what it computes from the graph's inputs."""
        values: dict[int, bytes] = {}
        for at, t in enumerate(graph.inputs):
            root = graph is (self.before, self.after)[side]
            values[id(t)] = b"input:" + (t.name.encode() if root else str(at).encode())
        found: dict[int, bytes] = {}
        for node in graph.nodes:
            digest = hashlib.blake2b(digest_size=16)
            digest.update(f"{node.op}|{'' if node.domain in ONNX_DOMAINS else node.domain}|{node.overload}|{len(node._outputs)}".encode())
            for t in node._inputs:
                digest.update(b"," + self._value_hash(t, values, side))
            for name in sorted(node.attrs):
                digest.update(b"@" + name.encode() + self._attribute_hash(node.attrs[name], side, values))
            found[id(node)] = digest.digest()
            for k, t in enumerate(node._outputs):
                values[id(t)] = self._computed[id(t)] = found[id(node)] + bytes([k % 256])
        return found

    def _value_hash(self, t: Tensor, values: dict[int, bytes], side: int) -> bytes:
        if not t._name:
            return b"none"
        known = values.get(id(t))
        if known is not None:
            return known
        if isinstance(t, Constant):
            return self._weight_hash(t)
        if side == 0 and id(t) in self.tensors:
            return b"outer:" + str(id(self.tensors[id(t)])).encode()
        return b"outer:" + str(id(t)).encode() if side else b"unknown:" + t._name.encode()

    def _weight_hash(self, t: Constant) -> bytes:
        found = self._weights.get(id(t))
        if found is None:
            digest = hashlib.blake2b(digest_size=16)
            known = dtypes.of(t)
            digest.update(f"{known.name if known else t.dtype}{tuple(t.shape)}".encode())
            values = np.asarray(t.values)
            digest.update(repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).view(np.uint8).data if values.ndim else values.tobytes())
            found = self._weights[id(t)] = b"w" + digest.digest()
            self._kept.append(t)
        return found

    def _attribute_hash(self, value: Any, side: int, outer: dict[int, bytes]) -> bytes:
        if is_graph(value):
            return self._body_hash(value, side, outer)
        if isinstance(value, Constant):
            return self._weight_hash(value)
        if isinstance(value, (list, tuple)):
            return b"[" + b",".join(self._attribute_hash(v, side, outer) for v in value) + b"]"
        if isinstance(value, np.ndarray):
            return value.tobytes()
        return repr(value).encode()

    def _body_hash(self, body: Graph, side: int, outer: dict[int, bytes]) -> bytes:
        values = dict(outer)
        for at, t in enumerate(body.inputs):
            values[id(t)] = b"formal" + str(at).encode()
        digest = hashlib.blake2b(digest_size=16)
        for node in body.nodes:
            digest.update(f"{node.op}|{node.domain or ''}".encode())
            for t in node._inputs:
                digest.update(b"," + self._value_hash(t, values, side))
            for name in sorted(node.attrs):
                digest.update(name.encode() + self._attribute_hash(node.attrs[name], side, values))
            here = digest.digest()
            for k, t in enumerate(node._outputs):
                values[id(t)] = here + bytes([k % 256])
        for t in body.outputs:
            digest.update(b";" + self._value_hash(t, values, side))
        return digest.digest()

    # -- a pair -----------------------------------------------------------------------------------

    def _pair(self, a: Graph, b: Graph, x: Node, y: Node, new_outputs: set[int]) -> None:
        where = self.places[0].node(a, x)
        if x.op != y.op or ("" if x.domain in ONNX_DOMAINS else x.domain) != ("" if y.domain in ONNX_DOMAINS else y.domain):
            self.note("changed", "node", where, f"operator {x.op} -> {y.op}")
        for name in sorted(x.attrs.keys() | y.attrs.keys()):
            self._attribute(where, name, x.attrs.get(name), y.attrs.get(name), missing=(name not in x.attrs, name not in y.attrs))
        if len(x._inputs) != len(y._inputs):
            self.note("changed", "input", where, f"{len(x._inputs)} inputs -> {len(y._inputs)}")
        for k, (t, u) in enumerate(zip(x._inputs, y._inputs)):
            if isinstance(t, Constant) and isinstance(u, Constant):
                self._weight(where, t, u)
            elif not self._same_tensor(t, u) and id(u) not in new_outputs:
                self.note("changed", "input", where, f"input {k} '{t.name}' -> '{u.name}'")
        if len(x._outputs) != len(y._outputs):
            self.note("changed", "node", where, f"{len(x._outputs)} outputs -> {len(y._outputs)}")
        for t, u in zip(x._outputs, y._outputs):
            if t.name and u.name and (t.shape is not None or u.shape is not None):
                self._types(t, u, where)
        if x.metadata_props != y.metadata_props:
            self._props(where, x.metadata_props, y.metadata_props)
        if x.doc_string != y.doc_string:
            self.note("changed", "metadata", where, f"doc string {x.doc_string!r:.40} -> {y.doc_string!r:.40}")
        del b

    def _same_tensor(self, t: Tensor, u: Tensor) -> bool:
        if not t._name or not u._name:
            return not t._name and not u._name
        if isinstance(t, Constant) and isinstance(u, Constant):
            return self._weights_agree(t, u)
        if self.tensors.get(id(t)) is u:
            return True
        return id(t) in self._computed and self._computed[id(t)] == self._computed.get(id(u))

    def _weights_agree(self, t: Constant, u: Constant) -> bool:
        if dtypes.of(t) is not dtypes.of(u) or tuple(t.shape) != tuple(u.shape):
            return False
        if self._weight_hash(t) == self._weight_hash(u):
            return True
        x, y = np.asarray(t.values), np.asarray(u.values)
        if x.dtype.kind == "f" and np.array_equal(x, y, equal_nan=True):
            return True
        return self.tolerance is not None and x.dtype.kind not in "OUSb" and bool(np.allclose(x.astype(np.float64), y.astype(np.float64), rtol=0, atol=self.tolerance, equal_nan=True))

    def _weight(self, where: str, t: Constant, u: Constant) -> None:
        if self._weights_agree(t, u):
            return
        if dtypes.of(t) is not dtypes.of(u) or tuple(t.shape) != tuple(u.shape):
            self.note("changed", "weight", f"{where} > '{t.name}'", f"{t.dtype}{tuple(t.shape)} -> {u.dtype}{tuple(u.shape)}")
            return
        x, y = np.asarray(t.values), np.asarray(u.values)
        apart = int(np.count_nonzero(x != y))
        detail = f"{apart} of {x.size} elements differ"
        if x.dtype.kind not in "OUSb":
            detail += f", by at most {np.nanmax(np.abs(x.astype(np.float64) - y.astype(np.float64))):.3g}"
        self.note("changed", "weight", f"{where} > '{t.name}'", detail)

    def _attribute(self, where: str, name: str, x: Any, y: Any, *, missing: tuple[bool, bool]) -> None:
        path = f"{where} > {name}"
        if any(missing):
            self.note("added" if missing[0] else "removed", "attribute", path, f"{_shown(y if missing[0] else x)}")
        elif is_graph(x) and is_graph(y):
            self._interface(x, y, public=False)
            self._graphs(x, y)
        elif isinstance(x, Constant) and isinstance(y, Constant):
            self._weight(path, x, y)
        elif not same_value(x, y):
            self.note("changed", "attribute", path, f"{_shown(x)} -> {_shown(y)}")


def _dims(t: Tensor) -> list[Any] | None:
    shape: Iterable[Any] | None = t.shape
    return None if shape is None else list(shape)


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
