"""Training mode: batch statistics spelled out, dropout that drops nothing taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_TRAINING_MODE_ATTRIBUTE = 14


def _batch_normalization(case: Case) -> Sequence[Tensor | None] | None:
    """Mean and variance of the batch, as ONNX's definition has them."""
    if case.opset < _TRAINING_MODE_ATTRIBUTE or not case.attribute("training_mode"):
        return None
    x, scale, bias, mean, variance = (case.typed(t) for t in case.node.inputs)
    dtype = case.dtype(x)
    rank = case.rank(x)
    if dtype is None or rank is None:
        raise Declined("the element type or the rank is not known")
    if any(case.dtype(t) is not dtype for t in (scale, bias, mean, variance)):
        raise Declined("statistics of another element type than the input")
    emit = case.emit
    axes = [k for k in range(rank) if k != 1]
    momentum, epsilon = float(case.attribute("momentum")), float(case.attribute("epsilon"))
    batch_mean = emit.reduce("ReduceMean", x, axes, keepdims=True)
    centered = emit.elementwise("Sub", x, batch_mean)
    batch_variance = emit.reduce("ReduceMean", emit.elementwise("Mul", centered, centered), axes, keepdims=True)
    column = [-1, *([1] * (rank - 2))]
    deviation = emit.elementwise("Sqrt", emit.elementwise("Add", batch_variance, emit.constant(np.array(epsilon, dtype.numpy))))
    scaled = emit.elementwise("Mul", emit.elementwise("Div", centered, deviation), emit.reshape(scale, column))
    made: list[Tensor | None] = [emit.elementwise("Add", scaled, emit.reshape(bias, column))]
    for k, (old, new) in enumerate(((mean, batch_mean), (variance, batch_variance))):
        if not case.is_used(1 + k):
            made.append(None)
            continue
        kept = emit.elementwise("Mul", old, emit.constant(np.array(momentum, dtype.numpy)))
        share = emit.elementwise("Mul", emit.reshape(new, [-1], [None]), emit.constant(np.array(1 - momentum, dtype.numpy)))
        made.append(emit.elementwise("Add", kept, share))
    return made


def _dropout(case: Case) -> Sequence[Tensor | None] | None:
    """Nothing is dropped: the ratio is 0."""
    mode = case.input(2)
    if mode is None:
        return None
    training = constness.scalar(mode)
    if training is None:
        raise Declined("training_mode is computed at run time")
    if not training:
        return None
    ratio = case.input(1)
    if ratio is None or constness.scalar(ratio) != 0:
        raise Declined("elements are dropped at random")
    x = case.typed(case.node.inputs[0])
    made: list[Tensor | None] = [x]
    if case.is_used(1):
        emit = case.emit
        made.append(emit.op("Expand", emit.constant(np.ones((), np.bool_)), emit.shape_of(x), dtype=np.bool_, shape=case.shape(x)))
    return made


RULES: dict[str, tuple[Rule, ...]] = {"BatchNormalization": (_batch_normalization,), "Dropout": (_dropout,)}
