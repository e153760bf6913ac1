"""A constant added to what a convolution gives becomes its bias."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node


@dataclass(frozen=True)
class AbsorbBias(NodePass):
    """Make the constant that is added to the output of a convolution without bias its bias.

    Exact: ONNX Runtime adds the bias to the finished sum of a float32 convolution, as ``Add`` does.

    Matches:   ``Add`` of a constant of shape ``[C, 1, ...]`` (or of one element) and the output of a float32 ``Conv`` or
               ``ConvTranspose`` with two inputs that nothing else reads.
    Rewrites:  the convolution gets a third input; ``Add`` goes.
    Declines:  a constant that differs within a channel, or that would make the result larger; other element types.
    """

    name: ClassVar[str] = "absorb-bias"
    ops: ClassVar[tuple[str, ...]] = ("Add",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Absorb the addition."""
        for added, x in (tuple(node._inputs), tuple(node._inputs)[::-1]):
            conv = work.producer(x, "Conv", "ConvTranspose") if isinstance(added, Constant) else None
            if conv is None or not isinstance(added, Constant) or not work.is_private(x) or work.edit.holder.get(id(conv)) is not owner:
                continue
            if len(conv._inputs) > 2 and conv._inputs[2]._name:
                continue
            weight = work.facts.shape(conv._inputs[1])
            if weight is None or len(weight) < 2 or work.facts.dtype(x) is not dtypes.FLOAT:
                continue
            channels = weight[0] if conv.op == "Conv" else weight[1] * int(conv.attrs.get("group", 1))
            bias = _per_channel(added, channels, len(weight)) if isinstance(channels, int) else None
            if bias is None or not work.can_replace(node._outputs[0], x):
                continue
            work.report.rewrote(owner, node, f"becomes the bias of '{conv.name or conv.op}'")
            conv._inputs[2:] = [work.constant(f"{added.name}_bias", bias)]
            work.edit.bypass(owner, node, x)
            return


def _per_channel(added: Constant, channels: int, rank: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None:
    shape = added.shape
    if len(shape) > rank or math.prod(shape) not in {1, channels}:
        return None
    padded = (1,) * (rank - len(shape)) + shape
    if padded[0] != 1 or padded[1] not in {1, channels} or any(d != 1 for d in padded[2:]):
        return None
    return np.ascontiguousarray(np.broadcast_to(added.values.reshape(-1), (channels,)))
