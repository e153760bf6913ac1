"""Normalizations with further outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


@handles("BatchNormalization", hands_on=True)
def _batch_norm(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x))
    for t in list(node._outputs)[1:]:
        f.tell(t, f.dtype(node._inputs[3]), f.shape(node._inputs[3]))


@handles("LayerNormalization", hands_on=True)
def _layer_norm(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    f.tell(node._outputs[0], f.dtype(x), dims)
    axis = int(node.attrs.get("axis", -1))
    for t in list(node._outputs)[1:]:
        shape = None if dims is None else (*dims[: axis % len(dims)], *(1 for _ in dims[axis % len(dims) :]))
        f.tell(t, dtypes.find(node.attrs.get("stash_type", 1)), shape)


@handles("SkipLayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft", hands_on=True)
def _skip_layer_norm(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x))
