"""Operators over windows and places of images and signals: convolution, pooling, resizing, sampling, short Fourier transforms."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.analysis.dim_expr import ceildiv, floordiv
from onnx_gs.analysis.shape_functions.operands import as_size, given, produced, static
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_arithmetic import Item
    from onnx_gs.analysis.shape_functions.table import Shape
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def _windows(f: ShapeFacts, node: Node, spatial: Shape, kernel: list[int], *, is_pool: bool) -> Shape:
    attrs = node.attrs
    rank = len(spatial)
    strides = [int(s) for s in attrs.get("strides", ())] or [1] * rank
    dilations = [int(s) for s in attrs.get("dilations", ())] or [1] * rank
    pads = [int(p) for p in attrs.get("pads", ())] or [0] * (2 * rank)
    auto = attrs.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    up = bool(attrs.get("ceil_mode", 0)) and is_pool
    out: list[Dim] = []
    for i, d in enumerate(spatial):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if auto in {"SAME_UPPER", "SAME_LOWER"}:
            out.append(ceildiv(d, strides[i]))
            continue
        free = d + (pads[i] + pads[i + rank] - reach if auto != "VALID" else -reach)
        if up:
            size = ceildiv(free, strides[i]) + 1
            if not isinstance(d, int):
                size = f.fresh()  # the last window may start in the padding and then does not count
            elif (size - 1) * strides[i] >= d + pads[i]:  # type: ignore[operator]
                size = size - 1
            out.append(size)
        else:
            out.append(_steps(free, strides[i]))
    return tuple(out)


@lru_cache(1024)
def _steps(free: Dim, stride: int) -> Dim:
    """Give the number of places of a window that can move so far; a model has few different ones."""
    return floordiv(free, stride) + 1


@handles("Conv", "ConvInteger", looks_at=2)
def _conv(f: ShapeFacts, node: Node) -> None:
    x, w = node._inputs[0], node._inputs[1]
    _convolved(f, node, x, w, dtypes.INT32 if node.op == "ConvInteger" else f.dtype(x) or f.dtype(w))


@handles("QLinearConv")
def _qlinear_conv(f: ShapeFacts, node: Node) -> None:
    _convolved(f, node, node._inputs[0], node._inputs[3], f.dtype(node._inputs[7]))


def _convolved(f: ShapeFacts, node: Node, x: Tensor, w: Tensor, dtype: DataType | None) -> None:
    dims, weight = f.shape(x), f.shape(w)
    kernel = [int(k) for k in node.attrs.get("kernel_shape", ())] or list(static(weight[2:]) or () if weight is not None else ())
    if dims is None and weight is not None:
        dims = f.unknown(len(weight))
    if dims is None or any(not isinstance(k, int) for k in kernel) or len(kernel) != len(dims) - 2:
        return f.tell(node._outputs[0], dtype, None if dims is None else f.unknown(len(dims)))
    channels = weight[0] if weight is not None else f.fresh()
    return f.tell(node._outputs[0], dtype, (dims[0], channels, *_windows(f, node, dims[2:], kernel, is_pool=False)))


@handles("ConvTranspose", looks_at=2)
def _conv_transpose(f: ShapeFacts, node: Node) -> None:
    x, w = node._inputs[:2]
    dims, weight = f.shape(x), f.shape(w)
    attrs = node.attrs
    if dims is None or weight is None or not all(isinstance(d, int) for d in weight[1:]):
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)) if dims is not None else None)
    rank = len(dims) - 2
    strides = [int(s) for s in attrs.get("strides", ())] or [1] * rank
    dilations = [int(s) for s in attrs.get("dilations", ())] or [1] * rank
    pads = [int(p) for p in attrs.get("pads", ())] or [0] * (2 * rank)
    extra = [int(p) for p in attrs.get("output_padding", ())] or [0] * rank
    kernel = [int(k) for k in attrs.get("kernel_shape", ())] or [int(k) for k in weight[2:]]  # type: ignore[arg-type]
    auto = attrs.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    if "output_shape" in attrs:
        spatial: Shape = tuple(int(d) for d in attrs["output_shape"])[-rank:]
    elif auto in {"SAME_UPPER", "SAME_LOWER"}:
        spatial = tuple(d * s for d, s in zip(dims[2:], strides))
    else:
        around = [0] * rank if auto == "VALID" else [pads[i] + pads[i + rank] for i in range(rank)]
        spatial = tuple((d - 1) * s + e + (k - 1) * dl + 1 - p for d, s, e, k, dl, p in zip(dims[2:], strides, extra, kernel, dilations, around))
    return f.tell(node._outputs[0], f.dtype(x), (dims[0], weight[1] * int(attrs.get("group", 1)), *spatial))


@handles("MaxPool", "AveragePool", "LpPool", looks_at=1)
def _pool(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    shape = None
    if dims is not None:
        shape = (*dims[:2], *_windows(f, node, dims[2:], [int(k) for k in node.attrs["kernel_shape"]], is_pool=True))
    f.tell(node._outputs[0], f.dtype(x), shape)
    if at := produced(node, 1):
        f.tell(at, dtypes.INT64, shape)


@handles("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", attributes=False)
def _global_pool(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    f.tell(node._outputs[0], f.dtype(x), None if dims is None else (*dims[:2], *(1 for _ in dims[2:])))


@handles("Resize", "Upsample")
def _resize(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    attrs = node.attrs
    axes = [int(a) % len(dims) for a in attrs.get("axes", ())] or list(range(len(dims)))
    sizes = given(node, 3) if node.op == "Resize" else None
    out: list[Dim] = list(dims)
    if sizes is not None:
        policy = attrs.get("keep_aspect_ratio_policy", "stretch")
        held = f.contents(sizes)
        if held is None or (policy.decode() if isinstance(policy, bytes) else policy) != "stretch":
            return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
        for axis, item in zip(axes, held.items):
            out[axis] = as_size(f, item)
        return f.tell(node._outputs[0], f.dtype(x), tuple(out))
    scales: tuple[Item, ...] | None
    if "scales" in attrs:
        scales = tuple(float(s) for s in attrs["scales"])
    else:
        t = given(node, 2 if node.op == "Resize" and len(node._inputs) > 2 else 1)
        scales = f.floats(t) if t is not None else None
    if scales is None or len(scales) != len(axes):
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
    for axis, scale in zip(axes, scales):
        d = dims[axis]
        if not isinstance(scale, (int, float)):
            out[axis] = f.fresh()
        elif float(scale).is_integer():
            out[axis] = d * int(scale)
        else:
            out[axis] = math.floor(np.float32(d) * np.float32(scale)) if isinstance(d, int) else f.fresh()
    return f.tell(node._outputs[0], f.dtype(x), tuple(out))


@handles("RoiAlign", "MaxRoiPool")
def _roi(f: ShapeFacts, node: Node) -> None:
    x, rois = node._inputs[:2]
    dims, boxes = f.shape(x), f.shape(rois)
    if node.op == "MaxRoiPool":
        height, width = (int(v) for v in node.attrs["pooled_shape"])
    else:
        height, width = int(node.attrs.get("output_height", 1)), int(node.attrs.get("output_width", 1))
    f.tell(node._outputs[0], f.dtype(x), (boxes[0] if boxes else f.fresh(), dims[1] if dims else f.fresh(), height, width))


@handles("GridSample", attributes=False)
def _grid_sample(f: ShapeFacts, node: Node) -> None:
    dims, at = f.shape(node._inputs[0]), f.shape(node._inputs[1])
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), (*dims[:2], *at[1:-1]) if dims is not None and at is not None else None)


@handles("STFT")
def _stft(f: ShapeFacts, node: Node) -> None:
    signal = f.shape(node._inputs[0])
    window, frame = given(node, 2), given(node, 3)
    size: Item = f.scalar(frame) if frame is not None else None
    if size is None and window is not None and (held := f.shape(window)) is not None:
        size = held[0]
    step = f.scalar(node._inputs[1])
    length = as_size(f, size)
    frames = floordiv(signal[1] - length, step) + 1 if signal is not None and type(step) is int and step > 0 else f.fresh()
    bins = floordiv(length, 2) + 1 if node.attrs.get("onesided", 1) else length
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), (signal[0] if signal is not None else f.fresh(), frames, bins, 2))
