"""Which nodes and tensors of two models belong together, whatever they are called and in whatever order they stand."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.debug.alignment import FAR, aligned, chain, operator, realigned
from onnx_gs.debug.weights import Weights, type_key
from onnx_gs.ir import order, scopes
from onnx_gs.ir.node import is_graph
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor

Scopes = tuple[dict[int, bytes], ...]
MOST_COMPARED = 4096  # of readers of one tensor, each against each


class _Pairing:
    """Two graphs while their nodes are paired.

    Args:
        a: the graph of the first model.
        b: the graph of the second.
        forward: hashes of what the nodes of each compute, by node.
        tensors: gets the pairs of tensors that come with those of nodes.
        sure: gets the nodes of ``a`` that were not paired with just one of several that are equal.

    Attributes:
        matched: nodes of ``a`` -> nodes of ``b``.
        free: the nodes of each that have no partner yet.
    """

    def __init__(
        self, a: Graph, b: Graph, forward: tuple[dict[int, bytes], dict[int, bytes]], tensors: dict[int, Tensor], sure: set[int]
    ) -> None:
        """Start with all nodes free."""
        self.a, self.b, self.forward, self.tensors, self.sure = a, b, forward, tensors, sure
        self.matched: dict[int, Node] = {}
        self.free: tuple[dict[int, Node], dict[int, Node]] = ({id(n): n for n in a.nodes}, {id(n): n for n in b.nodes})

    @cached_property
    def context(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Hashes of where the results of the nodes of each go, by node."""
        return _contexts(self.a), _contexts(self.b)

    @property
    def goes_on(self) -> bool:
        """Say whether both graphs have free nodes."""
        return bool(self.free[0] and self.free[1])

    def pair(self, x: Node, y: Node, *, sure: bool = True) -> None:
        """Let two free nodes belong together, and what they make."""
        self.matched[id(x)] = y
        if sure:
            self.sure.add(id(x))
        self.free[0].pop(id(x))
        self.free[1].pop(id(y))
        for t, u in zip(x._outputs, y._outputs):
            self.tensors[id(t)] = u

    def pair_equal(self, key: Callable[[Node, int], Any], *, unique: bool = False, balanced: bool = False, named: bool = False) -> None:
        """Pair free nodes of equal keys, in order.

        Args:
            key: gives the key of a node of the first (0) or second (1) graph; None has no partner.
            unique: only where each graph has one node of the key.
            balanced: only where both have as many.
            named: whether the key is sure to tell nodes apart.
        """
        sides: tuple[dict[Any, list[Node]], dict[Any, list[Node]]] = (defaultdict(list), defaultdict(list))
        for side, free in enumerate(self.free):
            for node in free.values():
                if (found := key(node, side)) is not None:
                    sides[side][found].append(node)
        for found, nodes in sides[0].items():
            others = sides[1].get(found, [])
            if (not unique or len(nodes) == len(others) == 1) and (not balanced or len(nodes) == len(others)):
                for x, y in zip(nodes, others):
                    self.pair(x, y, sure=named or len(nodes) == len(others) == 1)

    def anchors(self, *, sure: bool) -> list[tuple[Node, Node]]:
        """List the pairs that stand beside a free node, only those that are sure where asked."""
        near = [n for n in _beside(self.a, self.free[0]) if id(n) in self.matched and (not sure or id(n) in self.sure)]
        return [(n, self.matched[id(n)]) for n in near]


class Matching:
    """The pairs of two models' nodes and tensors, found graph by graph.

    Args:
        before: the first model.
        after: the second.
        weights: of both.
    """

    def __init__(self, before: Graph, after: Graph, weights: Weights) -> None:
        """Start with no pairs."""
        self.before, self.after, self.weights = before, after, weights
        self.tensors: dict[int, Tensor] = {}  # of before -> of after
        self.computed: dict[int, bytes] = {}  # tensors with equal hashes have equal values, whichever equal nodes were paired
        self._hashed: tuple[set[bytes], set[bytes]] = (set(), set())  # hashes of computed tensors of each model
        self._sure: set[int] = set()  # nodes of before that were not paired with just one of several that are equal
        self._owns: dict[int, bytes] = {}
        self._types: dict[int, tuple[Any, ...]] = {}

    def match(self, a: Graph, b: Graph) -> tuple[list[tuple[Node, Node]], list[Node], list[Node]]:
        """Pair the nodes of two graphs: give the pairs, and what only the first and only the second has."""
        forward = (self._hashes(a, 0), self._hashes(b, 1))
        p = _Pairing(a, b, forward, self.tensors, self._sure)
        # Of several nodes that compute the same, those of one name belong together, else those whose results go to the same places, else those of
        # equal notes and types. Where one model has more of them than the other, their neighbors have to tell which is new.
        p.pair_equal(lambda n, side: (forward[side][id(n)], n.name, self._types_of(n)), named=True)
        if p.goes_on:
            context = p.context
            p.pair_equal(lambda n, side: (forward[side][id(n)], context[side][id(n)], _notes(n), self._types_of(n)))
            p.pair_equal(lambda n, side: (forward[side][id(n)], _notes(n), self._types_of(n)), balanced=True)
            p.pair_equal(lambda n, side: (forward[side][id(n)], self._types_of(n)), balanced=True)
        if p.goes_on:
            self._match_rest(p)
        free_a, free_b = p.free
        pairs = [(n, p.matched[id(n)]) for n in a.nodes if id(n) in p.matched]
        return pairs, [n for n in a.nodes if id(n) in free_a], [n for n in b.nodes if id(n) in free_b]

    def _match_rest(self, p: _Pairing) -> None:
        """Match what does not compute the same: by name where names can be trusted, by own weights and attributes, by neighbors."""
        named = {n.name for n in p.b.nodes if n.name}
        nodes = [n for n in p.a.nodes if not (n.op == "Constant" and self.weights.nodes)]  # which may be initializers in the other model
        kept = sum(n.name in named for n in nodes if n.name)
        disagree = sum(bool(n.name) and n.name != p.matched[id(n)].name for n in p.a.nodes if id(n) in p.matched)
        trusted = kept > len(nodes) // 2 and disagree <= len(p.matched) // 4
        forward, context = p.forward, p.context
        if trusted:
            p.pair_equal(lambda n, _: (n.name, n.op, n.domain or "") if n.name else None, unique=True)
        p.pair_equal(lambda n, side: self._own(n, side) if self._has_weight(n) else None, unique=True)
        p.pair_equal(lambda n, side: (self._own(n, side), context[side][id(n)]), unique=True)
        p.pair_equal(lambda n, _: (operator(n), tuple(type_key(t) for t in n._inputs)) if self._reads_only_weights(n) else None, unique=True)
        self._spread(p, p.anchors(sure=True))
        self._bridge(p)
        p.pair_equal(lambda n, side: (forward[side][id(n)], self._types_of(n)))
        p.pair_equal(lambda n, side: forward[side][id(n)])
        self._spread(p, p.anchors(sure=False))
        if trusted:
            p.pair_equal(lambda n, _: n.name or None, unique=True)
            self._spread(p, p.anchors(sure=False))
        self._swap_operators(p)
        self._spread(p, p.anchors(sure=False))

    def _types_of(self, node: Node) -> tuple[Any, ...]:
        found = self._types.get(id(node))
        if found is None:
            found = self._types[id(node)] = tuple([type_key(t) for t in node._outputs])
        return found

    def _has_weight(self, node: Node) -> bool:
        return node.op == "Constant" or any(self.weights.of(t) is not None for t in node._inputs)

    def _reads_only_weights(self, node: Node) -> bool:
        return bool(node._inputs) and all(self.weights.of(t) is not None for t in node._inputs)

    def _own(self, node: Node, side: int) -> bytes:
        """Hash what a node has of its own: operator, attributes, weights."""
        found = self._owns.get(id(node))
        if found is None:
            digest = hashlib.blake2b(operator(node), digest_size=16)
            for t in node._inputs:
                held = self.weights.of(t)
                digest.update(self.weights.hash(held) if held is not None else b"computed" if t._name else b"none")
            for name in sorted(node.attrs):
                if not is_graph(node.attrs[name]):
                    digest.update(b"@" + name.encode() + self._attribute_hash(node.attrs[name], side, ()))
            found = self._owns[id(node)] = digest.digest()
        return found

    def _spread(self, p: _Pairing, anchors: list[tuple[Node, Node]]) -> None:
        """Match nodes of one operator that stand at the same place beside a matched pair, until nothing is added."""
        pending = list(anchors)
        free_a, free_b = p.free
        ends = list(zip(p.a.outputs, p.b.outputs))

        def try_pair(x: Node, y: Node) -> None:
            if id(x) in free_a and id(y) in free_b and x.op == y.op and (x.domain or "") == (y.domain or ""):
                p.pair(x, y)
                pending.append((x, y))

        for t, u in ends:
            for x, y in zip(t._inputs, u._inputs):
                try_pair(x, y)
        starts = [(t, self.tensors[id(t)]) for t in p.a.inputs if id(t) in self.tensors]
        while pending or starts:
            if starts:
                t, u = starts.pop()
                self._readers(p, t, u, try_pair)
                continue
            x, y = pending.pop()
            for t, u in zip(x._inputs, y._inputs):
                for source, other in zip(t._inputs, u._inputs):
                    try_pair(source, other)
            starts.extend(zip(x._outputs, y._outputs))

    def _bridge(self, p: _Pairing) -> None:
        """Go on behind nodes that only one model has: where two chains of single readers run alike again, their nodes belong together."""
        free_a, free_b = p.free
        fresh = p.anchors(sure=True)
        while fresh:
            found: list[tuple[Node, Node]] = []
            seen: set[int] = set()  # chains that flow together are walked once
            for x, y in fresh:
                ours = chain(x, free_a, seen)
                theirs = chain(y, free_b, set()) if ours else []
                for ends in aligned(ours, theirs, p.matched) or realigned(ours[:FAR], theirs[:FAR]):
                    p.pair(*ends)
                    found.append(ends)
            still = list(free_a)
            self._spread(p, found)
            taken = {key for key in still if key not in free_a}
            fresh = found + [(n, p.matched[id(n)]) for n in p.a.nodes if id(n) in taken] if taken else found

    def _readers(self, p: _Pairing, t: Tensor, u: Tensor, try_pair: Callable[[Node, Node], None]) -> None:
        """Match the free readers of two tensors that belong together: of several, those that are most alike."""

        def places(tensor: Tensor, free: dict[int, Node]) -> dict[tuple[bytes, int], list[Node]]:
            found: dict[tuple[bytes, int], list[Node]] = defaultdict(list)
            for node in {id(n): n for n in tensor._outputs if id(n) in free}.values():
                found[(operator(node), next(k for k, x in enumerate(node._inputs) if x is tensor))].append(node)
            return found

        def likeness(x: Node, y: Node) -> int:
            alike = sum(self._seems_same(read, other) for read, other in zip(x._inputs, y._inputs))
            return 4 * (context[0].get(id(x)) == context[1].get(id(y))) + 2 * (self._own(x, 0) == self._own(y, 1)) + alike

        context = p.context
        ours, theirs = places(t, p.free[0]), places(u, p.free[1])
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
        mine, other = self.weights.of(t), self.weights.of(u)
        if mine is not None and other is not None:
            return self.weights.hash(mine) == self.weights.hash(other)
        return self.tensors.get(id(t)) is u or (id(t) in self.computed and self.computed[id(t)] == self.computed.get(id(u)))

    def _swap_operators(self, p: _Pairing) -> None:
        """Match a node whose operator was exchanged: its readers or its inputs say where it stands."""
        free_a, free_b = p.free
        for node in [n for n in p.a.nodes if id(n) in free_a]:
            candidates: dict[int, tuple[int, Node]] = {}
            for t in node._outputs:
                for reader in t._outputs:
                    twin = p.matched.get(id(reader))
                    if twin is None or len(twin._inputs) != len(reader._inputs):
                        continue
                    for k, x in enumerate(reader._inputs):
                        if x is t:
                            for n in twin._inputs[k]._inputs:
                                if id(n) in free_b:
                                    candidates[id(n)] = (candidates.get(id(n), (0, n))[0] + 1, n)
            for t in node._inputs:
                u = self.tensors.get(id(t))
                for n in u._outputs if u is not None else ():
                    if id(n) in free_b:
                        candidates[id(n)] = (candidates.get(id(n), (0, n))[0] + 1, n)
            form = (len(node._inputs), len(node._outputs))
            fitting = [(score, n) for score, n in candidates.values() if (len(n._inputs), len(n._outputs)) == form]
            if fitting:
                p.pair(node, max(fitting, key=lambda entry: entry[0])[1])

    def _hashes(self, graph: Graph, side: int, outer: Scopes = ()) -> dict[int, bytes]:
        """Hash every node by what it computes from the graph's inputs and from what is outside."""
        values: dict[int, bytes] = {}
        root = graph is (self.before, self.after)[side]
        for at, t in enumerate(graph.inputs):
            values[id(t)] = b"input:" + t.name.encode() if root else b"formal:%d:%d" % (len(outer), at)
        visible = (*outer, values)
        found: dict[int, bytes] = {}
        for node in _in_order(graph):
            parts = [operator(node), b"|%d" % len(node._outputs)]
            for t in node._inputs:
                known = values.get(id(t)) if t._name else None
                parts.append(b"," + (self._value_hash(t, visible, side) if known is None else known))
            attrs = node.attrs
            for name in sorted(attrs):
                parts.append(b"@" + name.encode() + self._attribute_hash(attrs[name], side, visible))
            here = found[id(node)] = hashlib.blake2b(b"".join(parts), digest_size=16).digest()
            for k, t in enumerate(node._outputs):
                held = self.weights.of(t) if node.op == "Constant" else None
                values[id(t)] = here + b":%d" % k if held is None else self.weights.hash(held)
        if not outer:
            made = {id(t): values[id(t)] for node in graph.nodes for t in node._outputs}
            self.computed.update(made)
            self._hashed[side].update(made.values())
        return found

    def _value_hash(self, t: Tensor, visible: Scopes, side: int) -> bytes:
        if not t._name:
            return b"none"
        held = self.weights.of(t)
        if held is not None:
            return self.weights.hash(held)
        for values in reversed(visible):
            known = values.get(id(t))
            if known is not None:
                return known
        equal = self.computed.get(id(t))
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

    def same_tensor(self, t: Tensor, u: Tensor) -> bool:
        """Say whether two tensors belong together: one pair of nodes makes them, or they hold or compute the same."""
        if not t._name or not u._name:
            return not t._name and not u._name
        mine, other = self.weights.of(t), self.weights.of(u)
        if mine is not None and other is not None:
            return self.weights.agree(mine, other)
        if self.tensors.get(id(t)) is u:
            return True
        return id(t) in self.computed and self.computed[id(t)] == self.computed.get(id(u))


def _notes(node: Node) -> tuple[str, str]:
    return (node.doc_string, str(sorted(node.metadata_props.items())))


def _beside(graph: Graph, free: dict[int, Node]) -> list[Node]:
    """List the nodes that make what a free node reads, or read what it makes, in the graph's order."""
    near: set[int] = set()
    for node in free.values():
        for t in node._inputs:
            near.update(map(id, t._inputs))
        for t in node._outputs:
            near.update(map(id, t._outputs))
    return [n for n in graph.nodes if id(n) in near]


def _contexts(graph: Graph) -> dict[int, bytes]:
    """Hash, by node, where its results go: through which operators, at which inputs, to which outputs of the graph."""
    uses: dict[int, list[bytes]] = defaultdict(list)
    for at, t in enumerate(graph.outputs):
        uses[id(t)].append(b"output:%d" % at)
    captured = scopes.all_captures(graph)
    found: dict[int, bytes] = {}
    for node in reversed(_in_order(graph)):
        here = b";".join([b",".join(sorted(uses.get(id(t), ()))) for t in node._outputs])
        here = found[id(node)] = hashlib.blake2b(here, digest_size=12).digest()
        name = operator(node)
        for k, t in enumerate(node._inputs):
            uses[id(t)].append(name + b":%d:" % k + here)
        for t in captured.get(id(node), ()):
            uses[id(t)].append(name + b":body:" + here)
    return found


def _in_order(graph: Graph) -> list[Node]:
    """List a graph's nodes in topological order; the graph stays as it is."""
    shell = object.__new__(type(graph))
    shell.__dict__.update(graph.__dict__)
    order.sort_nodes(shell)
    return shell.nodes


def match_models(before: Graph, after: Graph) -> Matching:
    """Match the main graphs of two models, whose inputs belong together by name."""
    matching = Matching(before, after, Weights(before, after))
    theirs = {t.name: t for t in after.inputs}
    for t in before.inputs:
        if t.name in theirs:
            matching.tensors[id(t)] = theirs[t.name]
    matching.match(before, after)
    return matching
