"""Fusions of scale and shift into the operator before them. They reorder float arithmetic, so results are close, not equal; off by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.ops import traits
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.tensor import Tensor

Array = np.ndarray[Any, Any]
_FLOATS = frozenset({dtypes.FLOAT, dtypes.DOUBLE, dtypes.FLOAT16})


@dataclass(frozen=True)
class FuseBatchNorm(NodePass):
    """Fuse ``BatchNormalization`` into the convolution or ``Gemm`` before it.

    Matches:   ``BatchNormalization`` outside training with constant parameters, of the output of ``Conv``, ``ConvTranspose`` or ``Gemm`` with
               constant weights that nothing else reads.
    Rewrites:  weights and bias take over scale and shift, computed in float64.
    Declines:  weights that others read, or that are computed.
    """

    name: ClassVar[str] = "fuse-batch-norm"
    ops: ClassVar[tuple[str, ...]] = ("BatchNormalization",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Fuse one."""
        found = batch_norm(work, node)
        target = _target(work, owner, node._inputs[0])
        if found is not None and target is not None and work.can_replace(node._outputs[0], node._inputs[0]):
            _scale_and_shift(work, owner, node, target, *found)


@dataclass(frozen=True)
class FuseScale(NodePass):
    """Fuse multiplication by, and addition of, a constant for each channel into the operator before it.

    Matches:   ``Mul``, ``Div``, ``Add``, ``Sub`` of a constant and the output of ``Conv``, ``ConvTranspose``, ``Gemm`` or ``BatchNormalization`` with
               constant parameters, which nothing else reads; the constant has one value a channel.
    Rewrites:  the parameters take over scale or shift, computed in float64.
    Declines:  a constant that differs within a channel.
    """

    name: ClassVar[str] = "fuse-scale"
    ops: ClassVar[tuple[str, ...]] = ("Mul", "Div", "Add", "Sub")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Fuse one."""
        a, b = node._inputs
        for constant, x in ((b, a), (a, b)):
            if not isinstance(constant, Constant) or isinstance(x, Constant) or (constant is a and node.op in {"Div", "Sub"}):
                continue
            target = _target(work, owner, x)
            if target is None or not work.can_replace(node._outputs[0], x):
                continue
            channels, axis = _channels(work, target)
            rank = work.facts.rank(x)
            values = None if channels is None or rank is None else _per_channel(constant, channels, rank, axis)
            if values is None:
                continue
            ones, zeros = np.ones_like(values), np.zeros_like(values)
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = {"Mul": values, "Div": 1.0 / values}.get(node.op, ones)
            shift = {"Add": values, "Sub": -values}.get(node.op, zeros)
            if np.isfinite(scale).all() and np.isfinite(shift).all():
                _scale_and_shift(work, owner, node, target, scale, shift)
                return


@dataclass(frozen=True)
class FuseConstants(NodePass):
    """Make one of two additions of, or multiplications by, constants in a row.

    Matches:   ``Add`` of ``Add``, or ``Mul`` of ``Mul``, each with a constant, where nothing else reads what is between.
    Rewrites:  one node with the sum or product of the constants.
    Declines:  the constants would broadcast to something larger than both, or their sum or product is beyond the range of the type.
    """

    name: ClassVar[str] = "fuse-constants"
    ops: ClassVar[tuple[str, ...]] = ("Add", "Mul")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Merge one pair."""
        outer = _constant_operand(node)
        if outer is None:
            return
        constant, x = outer
        inner = work.producer(x, node.op)
        found = _constant_operand(inner) if inner is not None else None
        if inner is None or found is None or not work.is_private(x) or work.edit.holder.get(id(inner)) is not owner:
            return
        if dtypes.of(constant) not in _FLOATS:
            return
        first, source = found
        if first.nbytes + constant.nbytes > 1 << 24 or dtypes.of(first) is not dtypes.of(constant):
            return
        with np.errstate(all="ignore"):
            exact = (np.add if node.op == "Add" else np.multiply)(first.values.astype(np.float64), constant.values.astype(np.float64))
            if exact.size > max(first.values.size, constant.values.size):
                return
            both = np.asarray(exact, dtype=constant.values.dtype)
        if not np.isfinite(both).all() or (node.op == "Mul" and bool((np.abs(both) < np.finfo(both.dtype).tiny)[exact != 0].any())):
            return
        work.report.rewrote(owner, node, "one constant instead of two")
        node.inputs = [source, work.constant(f"{constant.name}_both", both)]


def _constant_operand(node: Node) -> tuple[Constant, Tensor] | None:
    a, b = node._inputs
    if isinstance(b, Constant) and not isinstance(a, Constant):
        return b, a
    return (a, b) if isinstance(a, Constant) and not isinstance(b, Constant) else None


def batch_norm(work: Work, node: Node) -> tuple[Array, Array] | None:
    """Give scale and shift a channel of a ``BatchNormalization`` with constant parameters."""
    if len(node._inputs) < 5 or traits.trains(node) or (work.root.opset < 7 and not node.attrs.get("is_test", 0)):
        return None
    if not all(isinstance(t, Constant) for t in list(node._inputs)[1:]) or not node.attrs.get("spatial", 1):
        return None
    scale, bias, mean, var = (_values(t).astype(np.float64) for t in list(node._inputs)[1:])
    factor = scale / np.sqrt(var + float(node.attrs.get("epsilon", 1e-5)))
    return (factor, bias - mean * factor) if np.isfinite(factor).all() else None


def _values(t: Tensor) -> Array:
    assert isinstance(t, Constant)
    return np.asarray(t.values)


def _target(work: Work, owner: Graph, x: Tensor) -> Node | None:
    """Give the operator with constant parameters that makes a tensor which only one node reads."""
    node = work.producer(x, "Conv", "ConvTranspose", "Gemm", "BatchNormalization")
    if node is None or not work.is_private(x) or work.edit.holder.get(id(node)) is not owner or dtypes.of(node._inputs[1]) not in _FLOATS:
        return None
    parameters = [t for t in list(node._inputs)[1:] if t._name]
    if not all(isinstance(t, Constant) for t in parameters):
        return None
    if node.op == "BatchNormalization":
        return node if batch_norm(work, node) is not None else None
    if node.op == "Gemm" and (node.attrs.get("alpha", 1.0) != 1.0 or node.attrs.get("beta", 1.0) != 1.0):
        return None
    return node if work.is_private(node._inputs[1]) else None


def _channels(work: Work, target: Node) -> tuple[int | None, int]:
    """Give the count of output channels of an operator, and their axis."""
    shape = tuple(target._inputs[1].shape)
    if target.op == "Gemm":
        return shape[0 if target.attrs.get("transB", 0) else 1], 1
    if target.op == "ConvTranspose":
        return shape[1] * int(target.attrs.get("group", 1)), 1
    return shape[0], 1


def _per_channel(constant: Constant, channels: int, rank: int, axis: int) -> Array | None:
    """Spread a constant over the channels; None where it differs within one, or would make the result larger."""
    shape = constant.shape
    if len(shape) > rank:
        return None
    padded = (1,) * (rank - len(shape)) + shape
    if any(d != 1 for i, d in enumerate(padded) if i != axis) or padded[axis] not in {1, channels}:
        return None
    return np.broadcast_to(np.asarray(constant.values).astype(np.float64).reshape(-1), (channels,))


def _scale_and_shift(work: Work, owner: Graph, node: Node, target: Node, scale: Array, shift: Array) -> None:
    """Let an operator give ``y * scale + shift`` instead of ``y``; ``node``, which did that, goes. Declines what is beyond the range of the type."""
    x = node._inputs[0] if not isinstance(node._inputs[0], Constant) else node._inputs[1]
    inputs = list(target._inputs)
    weight = _values(inputs[1])
    dtype = weight.dtype
    if target.op == "BatchNormalization":
        bias = _values(inputs[2]).astype(np.float64)
        new = [weight.astype(np.float64) * scale, bias * scale + shift]
    else:
        bias = _values(inputs[2]).astype(np.float64) if len(inputs) > 2 and inputs[2]._name else np.zeros(len(scale))
        new = [weight if np.all(scale == 1) else weight.astype(np.float64) * _shaped(target, weight, scale), bias * scale + shift]
    with np.errstate(over="ignore"):
        new = [array.astype(dtype, copy=False) for array in new]
    if not all(np.isfinite(array).all() for array in new):
        work.report.decline(owner, node, "the parameters would be beyond the range of their type")
        return
    work.report.rewrote(owner, node, f"fused into '{target.name or target.op}'")
    if new[0] is not weight:
        inputs[1] = work.constant(inputs[1].name, new[0])
    second = inputs[2].name if target.op == "BatchNormalization" else f"{target._outputs[0].name}_bias"
    inputs = [*inputs[:2], work.constant(second, new[1]), *inputs[3:]]
    target.inputs = inputs
    work.edit.bypass(owner, node, x)


def _shaped(target: Node, weight: Array, scale: Array) -> Array:
    """Give the scale in the shape that multiplies the weights of an operator."""
    if target.op == "Gemm":
        return scale.reshape(-1, 1) if target.attrs.get("transB", 0) else scale.reshape(1, -1)
    if target.op == "Conv":
        return scale.reshape(-1, *([1] * (weight.ndim - 1)))
    groups = int(target.attrs.get("group", 1))
    rows = np.repeat(scale.reshape(groups, -1), weight.shape[0] // groups, axis=0)  # weights are [C, M/groups, ...]
    return rows.reshape(weight.shape[0], weight.shape[1], *([1] * (weight.ndim - 2)))
