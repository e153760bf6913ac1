"""The codec: how objects of an import read the messages that they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx

from onnx_gs.errors import GraphError
from onnx_gs.io import attributes, tensor_data, types
from onnx_gs.ir import source
from onnx_gs.ir.values import LazyValues, SparseValues

if TYPE_CHECKING:
    from collections import OrderedDict

    import numpy as np

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.types import ValueType

_A = onnx.AttributeProto
_PLAIN = frozenset(map(int, (_A.FLOAT, _A.INT, _A.STRING, _A.FLOATS, _A.INTS, _A.STRINGS)))
_TENSOR, _SINGLE = int(_A.TENSOR), frozenset(map(int, (_A.FLOAT, _A.INT)))
_NUMBERS = frozenset(map(int, (_A.TENSOR, _A.FLOAT, _A.INT, _A.FLOATS, _A.INTS)))


class ProtoCodec:
    """Reads protobuf messages; see ``onnx_gs.ir.source.Codec``."""

    def attributes(self, source: Any) -> OrderedDict[str, Any]:
        """Decode a node's attributes; those with bodies were decoded by the importer."""
        return attributes.decode_all(source.attribute, _no_body, lazy)

    def signature(self, source: Any) -> tuple[bytes, ...] | None:
        """Give a node's attributes as bytes, in their order; None where some are more than numbers and texts."""
        found = []
        for attribute in source.attribute:
            if attribute.type not in _PLAIN:
                return None
            found.append(attribute.SerializeToString())
        return tuple(found)

    def constant(self, source: Any) -> tuple[str, Any] | None:
        """Give name and value of a node's only attribute: a number, a list of them, or lazy values; None where it has others, or another kind."""
        found = source.attribute
        if len(found) != 1:
            return None
        attribute = found[0]
        kind = attribute.type
        if kind not in _NUMBERS or attribute.ref_attr_name:
            return None
        if kind == _TENSOR:
            return attribute.name, LazyValues(attribute.t)
        value = getattr(attribute, attributes.FIELDS[kind])
        return attribute.name, value if kind in _SINGLE else value[:]

    def node_facts(self, source: Any) -> dict[str, Any]:
        """Decode what a node carries beside the fields that scripts know."""
        facts: dict[str, Any] = {"doc_string": source.doc_string, "overload": getattr(source, "overload", "")}
        facts["metadata_props"] = {e.key: e.value for e in getattr(source, "metadata_props", ())}
        return facts

    def value_type(self, source: Any) -> ValueType | None:
        """Decode the type of a value."""
        return types.decode_value(source) if isinstance(source, onnx.ValueInfoProto) else None

    def value_doc(self, source: Any) -> str:
        """Decode the doc string of a value or weight."""
        message = getattr(source, "_source", source)  # a weight is asked about by its lazy values
        return str(message.values.doc_string if tensor_data.is_sparse(message) else message.doc_string)

    def tensor_dtype(self, source: Any) -> np.dtype[Any] | int:
        """Give the public dtype of a weight, or of a value description."""
        return tensor_data.dtype_of(source)  # type: ignore[no-any-return]

    def tensor_nbytes(self, source: Any) -> int:
        """Give the bytes of a weight as a dense array; 0 where its element type is not known."""
        return tensor_data.nbytes_of(source)

    def tensor_shape(self, source: Any) -> tuple[int, ...]:
        """Give the shape of a weight."""
        return tensor_data.shape_of(source)

    def data_location(self, source: Any) -> int | None:
        """Give the ``DataLocation`` number that a weight was read with; None where its message has none."""
        return tensor_data.data_location(source)

    def load(self, source: Any, region: Any, *, peek: bool = False) -> np.ndarray[Any, Any]:
        """Read a weight's numbers; with ``peek`` for a look only."""
        return tensor_data.load(source, region, peek=peek)

    def raw(self, source: Any) -> bytes | None:
        """Give the bytes of a weight as its message stores them; None where it does not, or not plainly."""
        return tensor_data.raw(source)

    def supports(self, number: int) -> bool:
        """Say whether the installed ``onnx`` knows an element type."""
        return tensor_data.supports(number)

    def tensor_message(self, source: Any, region: Any) -> Any:
        """Give the message of a weight, whole: bytes that a file holds are read into a copy."""
        return tensor_data.whole(source, region)


def lazy(proto: Any) -> LazyValues:
    """Give lazy values for a weight whose message holds it."""
    return SparseValues(proto) if tensor_data.is_sparse(proto) else LazyValues(proto)


def _no_body(message: Any) -> Graph:
    # Nodes whose operator has bodies are decoded when they are imported.
    raise GraphError(f"an attribute holds graph '{message.name}', but its operator takes none", fix="the model is damaged; export it again")


def install() -> None:
    """Register the codec with the data model."""
    source.register(ProtoCodec())
