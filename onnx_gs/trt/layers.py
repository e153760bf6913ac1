"""TensorRT's layers as Python sees them: their real classes, and the ONNX nodes that they came from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from onnx_gs.trt.tensorrt import trt

if TYPE_CHECKING:
    from collections.abc import Iterator

#: ``LayerType`` → class. ``get_layer`` gives the base class; setting ``__class__`` is how the bindings are meant to be told.
_CLASSES = {
    "TRIP_LIMIT": "ITripLimitLayer", "RECURRENCE": "IRecurrenceLayer", "ITERATOR": "IIteratorLayer", "LOOP_OUTPUT": "ILoopOutputLayer",
    "CONDITION": "IConditionLayer", "CONDITIONAL_INPUT": "IIfConditionalInputLayer", "CONDITIONAL_OUTPUT": "IIfConditionalOutputLayer",
    "ELEMENTWISE": "IElementWiseLayer", "UNARY": "IUnaryLayer", "ACTIVATION": "IActivationLayer", "REDUCE": "IReduceLayer",
    "MATRIX_MULTIPLY": "IMatrixMultiplyLayer", "CAST": "ICastLayer",
}  # fmt: skip
LOOP_TYPES = frozenset({"TRIP_LIMIT", "RECURRENCE", "ITERATOR", "LOOP_OUTPUT"})
CONDITIONAL_TYPES = frozenset({"CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"})


def layers(network: trt.INetworkDefinition) -> Iterator[Any]:
    """Give the layers of a network, each of its own class."""
    for k in range(network.num_layers):
        layer = network.get_layer(k)
        wanted = _CLASSES.get(layer.type.name)
        if wanted is not None:
            layer.__class__ = getattr(trt, wanted)
        yield layer


_METADATA = re.compile(r"\[ONNX Layer: (.*?)\](?=\s*\[|$)", re.DOTALL)


def onnx_nodes(metadata: str) -> list[str]:
    """Give the names of the ONNX nodes in a layer's metadata: the node, then those whose bodies hold it.

    Example:
        >>> onnx_nodes("[ONNX Layer: add | tb (then_branch) | if_3 (If)]")
        ['add', 'if_3']
    """
    names: list[str] = []
    for entry in _METADATA.findall(metadata or ""):
        parts = entry.split(" | ")
        names.append(parts[0])
        names.extend(re.sub(r" \(\w+\)$", "", part) for part in parts[2::2])
    return names


def origins(network: trt.INetworkDefinition) -> dict[str, str]:
    """Give, by layer name, the name of the ONNX node it came from, also for the layers of loops and conditionals, which have no metadata."""
    found: dict[str, str] = {}
    for layer in layers(network):
        named = onnx_nodes(layer.metadata)
        if named:
            found[layer.name] = named[0]
        elif layer.type.name in LOOP_TYPES:
            found[layer.name] = layer.loop.name
        elif layer.type.name in CONDITIONAL_TYPES:
            found[layer.name] = layer.conditional.name
    return found
