"""Equal nodes computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.attribute import AttributeRef
from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, replace_all, works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node

_ORDER_FREE = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal"})


@dataclass(frozen=True)
class ShareSubexpressions(Pass):
    """Compute equal nodes once.

    Matches:   two nodes of one graph with the same operator, domain, overload and attributes, which read the same tensors and give as many outputs.
    Rewrites:  what reads the later one reads the earlier one.
    Declines:  random operators, operators with bodies, operators of domains that ONNX does not define unless they are local functions of plain
               operators; outputs that two graph outputs need under two names.
    """

    name: ClassVar[str] = "share-subexpressions"
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Share in every graph by itself, in node order, so that chains of equal nodes collapse in one go."""
        for work in works(graph, report):
            pure = _pure_functions(work.root)
            for owner in work.graphs():
                self._share(work, owner, pure)
            work.finish()

    def _share(self, work: Work, owner: Graph, pure: set[tuple[str, str, str]]) -> None:
        same: dict[int, tuple[Tensor, Tensor]] = {}  # by the later tensor's id: it, and the earlier one
        seen = _Seen(work, same)
        gone: list[Node] = []
        for node in owner.nodes:
            rivals = seen.rivals(node) if node._outputs and node._inputs else None
            if not rivals:
                if rivals is not None:
                    rivals.append(node)
                continue
            if not _may_share(node, pure):
                continue
            attributes = attribute_key(node)
            twin = next((n for n in rivals if attributes is not None and _gives_as_much(n, node) and attribute_key(n) == attributes), None)
            if twin is None:
                rivals.append(node)
                continue
            pairs = [(old, new) for old, new in zip(node._outputs, twin._outputs) if old._name and work.edit.is_used(old)]
            if not all(work.can_replace(old, new) for old, new in pairs):
                continue
            work.report.rewrote(owner, node, f"the same as '{twin.name or twin.op}'")
            if any(work.edit.listed_by(old) for old, _ in pairs):
                by_id = {id(old): new for old, new in pairs}
                work.edit.replace(owner, node, [], [by_id.get(id(t)) for t in node._outputs])
                continue
            same.update((id(old), (old, new)) for old, new in pairs)
            gone.append(node)
        # an earlier tensor may have given way to an output of the graph since it was noted
        replace_all({key: (old, work.edit.current(new)) for key, (old, new) in same.items()})
        for node in gone:
            work.edit.remove(owner, node)


class _Seen:
    """The nodes of a graph so far, by what they read; a tensor that gave way to an earlier one counts as that.

    Args:
        work: the work on the graph.
        same: by a tensor's id, it and the earlier one; it may grow.
    """

    def __init__(self, work: Work, same: dict[int, tuple[Tensor, Tensor]]) -> None:
        """Start with none."""
        self._work, self._same = work, same
        # By operator and first operand, which few nodes share: the only such node, or the nodes by all of their operands.
        self._first: dict[Any, Node | dict[Any, list[Node]]] = {}

    def rivals(self, node: Node) -> list[Node] | None:
        """Give the earlier nodes with a node's operator and operands, for the caller to add to; None where the first operand alone tells it apart."""
        inputs = node._inputs
        head = self._id(inputs[0])
        if node.op in _ORDER_FREE and len(inputs) == 2:
            head = min(head, self._id(inputs[1]))
        alike = self._first.setdefault((node.op, head), node)
        if alike is node:
            return None
        if not isinstance(alike, dict):
            alike = self._first[node.op, head] = {self._operands(alike): [alike]}
        return alike.setdefault(self._operands(node), [])

    def _operands(self, node: Node) -> tuple[Any, ...]:
        ids = [self._id(t) for t in node._inputs]
        if node.op in _ORDER_FREE and len(ids) == 2 and ids[0] > ids[1]:
            ids.reverse()
        return (node.domain or "", *ids)

    def _id(self, t: Tensor) -> int:
        if not t._name:
            return 0
        pair = self._same.get(id(t))
        return id(t) if pair is None else id(self._work.edit.current(pair[1]))


def _gives_as_much(first: Node, later: Node) -> bool:
    """Say whether the first node has every output that the later one has; ``Split`` and the like must have as many, of the same overload."""
    mine, theirs = first._outputs, later._outputs
    return first.overload == later.overload and len(mine) == len(theirs) and all(bool(a._name) or not b._name for a, b in zip(mine, theirs))


def _may_share(node: Node, pure: set[tuple[str, str, str]]) -> bool:
    if node.has_body or traits.is_random(node):
        return False
    if node.is_onnx:
        return node.op not in traits.STATEFUL and node.op not in traits.RANDOM
    return node.domain == "ai.onnx.ml" or (node.domain or "", node.op, node.overload) in pure


def _pure_functions(root: Graph) -> set[tuple[str, str, str]]:
    """Give the keys of local functions that hold nothing but deterministic operators of ONNX's own."""
    return {
        f.key for f in root.functions if all(n.is_onnx and not traits.is_random(n) and n.op not in traits.STATEFUL for _, n in walk.nodes(f))
    }


def attribute_key(node: Node) -> Any:
    """Give something that is equal exactly where the attributes are; None where that cannot be told."""
    try:
        return tuple(sorted((name, _frozen(value)) for name, value in node.attrs.items()))
    except TypeError:
        return None


def _frozen(value: Any) -> Any:
    if isinstance(value, AttributeRef):
        return ("ref", value.name)
    if isinstance(value, Constant):
        values = np.asarray(value.values)
        return ("tensor", dtypes.of(value), value.shape, tuple(values.ravel().tolist()) if values.dtype == object else values.tobytes())
    if isinstance(value, (list, tuple)):
        return ("list", tuple(_frozen(v) for v in value))
    if isinstance(value, bool):
        return ("int", int(value))
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, (int, str, bytes)):
        return (type(value).__name__, value)
    raise TypeError(type(value))
