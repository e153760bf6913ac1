"""Slices that take everything, and slices of slices that are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis.shape_functions import clamped, slice_parts
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node

_END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class EliminateSlices(NodePass):
    """Remove slices that take the whole tensor, and make one of two in a row.

    Matches:   ``ai.onnx::Slice`` with step 1 from 0 to the end on each of its axes, for every size; ``Slice`` of a ``Slice`` that nothing else reads,
               where both have constant parameters and, on an axis that both cut, steps of 1 and starts and ends counted from the front.
    Rewrites:  the node goes; or it reads the input of the first one, with both cuts.
    Declines:  nothing.
    """

    name: ClassVar[str] = "eliminate-slices"
    ops: ClassVar[tuple[str, ...]] = ("Slice",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass or merge the node."""
        x = node._inputs[0]
        dims = work.facts.shape(x)
        parts = slice_parts(work.facts, node)
        if parts is None:
            return
        if dims is not None and all(
            type(step) is int and step == 1 and clamped(start, dims[axis % len(dims)]) == 0 and clamped(end, dims[axis % len(dims)]) == dims[axis %
            len(dims)]
            for start, end, axis, step in zip(*parts)
        ) and work.bypass(owner, node, x, "it takes everything"):
            return
        inner = work.producer(x, "Slice")
        if inner is None or not work.is_private(x) or work.root.opset < 10 or work.edit.holder.get(id(inner)) is not owner or dims is None:
            return
        cuts, more = _cuts(work, inner, len(dims)), _cuts(work, node, len(dims))
        if cuts is None or more is None:
            return
        for axis, cut in more.items():
            joined = cut if axis not in cuts else _joined(cuts[axis], cut)
            if joined is None:
                return
            cuts[axis] = joined
        work.report.rewrote(owner, node, "merged with the slice before it")
        name = node._outputs[0].name
        axes = sorted(cuts)
        columns = [work.int64(f"{name}_{what}", [cuts[a][k] for a in axes]) for k, what in enumerate(("starts", "ends"))]
        node.inputs = [inner._inputs[0], *columns, work.int64(f"{name}_axes", axes), work.int64(f"{name}_steps", [cuts[a][2] for a in axes])]


def _cuts(work: Work, node: Node, rank: int) -> dict[int, tuple[int, int, int]] | None:
    """Give start, end and step by axis, where all are constants."""
    if len(node._inputs) < 3 or not all(isinstance(t, Constant) for t in list(node._inputs)[1:] if t._name):
        return None
    parts = slice_parts(work.facts, node)
    if parts is None or any(type(v) is not int for group in parts for v in group):
        return None
    starts, ends, axes, steps = parts
    return {a % rank: (s, e, k) for s, e, a, k in zip(starts, ends, axes, steps)}  # type: ignore[misc]


def _joined(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """Give the one cut that two on the same axis make, where all is counted from the front."""
    if first[2] != 1 or second[2] != 1 or min(first[0], first[1], second[0], second[1]) < 0:
        return None
    end = first[1] if second[1] >= _END // 2 else min(first[1], first[0] + second[1])
    return (first[0] + second[0], end, 1)
