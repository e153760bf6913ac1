"""Transposes that change nothing, and transposes of transposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node


@dataclass(frozen=True)
class EliminateTransposes(NodePass):
    """Remove transposes that leave every element in its place, and make one of two in a row.

    Matches:   ``ai.onnx::Transpose`` whose permutation moves at most dims of size 1 past others without changing the shape; ``Transpose`` of
               ``Transpose``.
    Rewrites:  the node goes; or it reads the input of the first one with the product of both permutations.
    Declines:  nothing.
    """

    name: ClassVar[str] = "eliminate-transposes"
    ops: ClassVar[tuple[str, ...]] = ("Transpose",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass or merge the node."""
        x = node._inputs[0]
        perm = _perm(work, node)
        if perm is None:
            return
        if _stays(work, node, perm) and work.bypass(owner, node, x, "every element stays in its place"):
            return
        inner = work.producer(x, "Transpose")
        if inner is None:
            return
        first = _perm(work, inner)
        if first is None or len(first) != len(perm):
            return
        both = [first[p] for p in perm]
        source = inner._inputs[0]
        if both == list(range(len(both))):
            work.bypass(owner, node, source, "two transposes lead back")
            return
        work.report.rewrote(owner, node, "merged with the transpose before it")
        node._inputs[0] = source
        node.attrs["perm"] = both


def _perm(work: Work, node: Node) -> list[int] | None:
    perm = node.attrs.get("perm")
    if perm is not None:
        return [int(p) for p in perm]
    rank = work.facts.rank(node._inputs[0])
    return None if rank is None else list(range(rank))[::-1]


def _stays(work: Work, node: Node, perm: list[int]) -> bool:
    if perm == list(range(len(perm))):
        return True
    dims = work.facts.shape(node._inputs[0])
    if dims is None or dims != work.facts.shape(node._outputs[0]):
        return False
    moved = [p for p in perm if dims[p] != 1]
    return moved == sorted(moved)
