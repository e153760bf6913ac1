"""Casts to float8 and back as quantization with scale 1: TensorRT has float8 only between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_FLOAT8_QUANTIZATION = 19
_SCALES = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BFLOAT16)


def _from_float8(case: Case) -> Sequence[Tensor | None] | None:
    """DequantizeLinear of QuantizeLinear with scale 1: the same rounding and saturation."""
    back = case.node.inputs[0]
    if case.dtype(back) is not dtypes.FLOAT8E4M3FN:
        return None
    inner = case.work.producer(back, "Cast")
    target = case.dtype(case.node.outputs[0])
    if inner is None or target is None or target.kind != "float" or case.opset < _FLOAT8_QUANTIZATION:
        raise Declined("float8 that no Cast from a float makes, or that is cast to something else")
    x = inner.inputs[0]
    source = case.dtype(x)
    if source not in _SCALES or source is None or not int(inner.attrs.get("saturate", 1)):
        raise Declined("a Cast to float8 from another type than a float, or without saturation")
    emit = case.emit
    scale = emit.constant(np.ones((), source.numpy))
    zero = emit.constant(np.zeros((), dtypes.FLOAT8E4M3FN.numpy))
    q = emit.op("QuantizeLinear", case.typed(x), scale, zero, dtype=dtypes.FLOAT8E4M3FN, shape=case.shape(x))
    made = emit.op("DequantizeLinear", q, scale, zero, dtype=source, shape=case.shape(x))
    return [emit.cast(made, target)]


RULES: dict[str, tuple[Rule, ...]] = {"Cast": (_from_float8,)}
