"""Where imported objects came from: opaque here, read through a codec that the import layer registers.

A node, a value or a weight that was imported keeps the message that it was read from. Attributes, types and numbers are decoded when they
are touched, and what nobody touched is exported as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onnx_gs.errors import OnnxGsError, UnsupportedTypeError

if TYPE_CHECKING:
    from collections import OrderedDict

    import numpy as np

    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.types import ValueType

Source = Any


class Codec(Protocol):
    """What the import layer knows how to read."""

    def attributes(self, source: Source) -> OrderedDict[str, Any]:
        """Decode a node's attributes; only called for nodes without bodies."""

    def signature(self, source: Source) -> tuple[bytes, ...] | None:
        """Give a node's attributes as bytes that no node with others has, undecoded; None where some are more than numbers and texts."""

    def constant(self, source: Source) -> tuple[str, Any] | None:
        """Give name and value of a node's only attribute: a number, a list of them, or lazy values; None where it has others, or another kind."""

    def node_facts(self, source: Source) -> dict[str, Any]:
        """Decode what a node carries beside the fields that scripts know: ``doc_string``, ``metadata_props``, ``overload``."""

    def value_type(self, source: Source) -> ValueType | None:
        """Decode the type of a value; None where the message has none."""

    def value_doc(self, source: Source) -> str:
        """Decode the doc string of a value or weight."""

    def tensor_dtype(self, source: Source) -> np.dtype[Any] | int:
        """Give the public dtype of a weight, or of a value description."""

    def tensor_nbytes(self, source: Source) -> int:
        """Give the bytes of a weight as a dense array; 0 where its element type is not known."""

    def tensor_shape(self, source: Source) -> tuple[int, ...]:
        """Give the shape of a weight."""

    def data_location(self, source: Source) -> int | None:
        """Give the ``DataLocation`` number that a weight was read with."""

    def load(self, source: Source, region: Any, *, peek: bool = False) -> np.ndarray[Any, Any]:
        """Read a weight's numbers, from the message or from the region of a file that holds them; with ``peek`` for a look only."""

    def raw(self, source: Source) -> bytes | None:
        """Give the little-endian bytes of a weight as its message stores them; None where it does not, or packs elements."""

    def supports(self, number: int) -> bool:
        """Say whether the installed ``onnx`` knows the element type of this number."""

    def tensor_message(self, source: Source, region: Any) -> Any:
        """Give a ``TensorProto`` or ``SparseTensorProto`` for a weight, whole."""


_codec: Codec | None = None


def register(codec: Codec) -> None:
    """Set the codec; called once, when the import layer is loaded."""
    global _codec  # noqa: PLW0603 - the one hook from the layer above, set at import
    _codec = codec


def codec() -> Codec:
    """Give the codec.

    Raises:
        OnnxGsError: a message is to be read, but the layer that reads messages was never imported.
    """
    if _codec is None:
        raise OnnxGsError("protobuf messages cannot be read yet", fix="import onnx_gs.io first")
    return _codec


def check_supported(dtype: DataType) -> None:
    """Raise where the installed ``onnx`` lacks an element type.

    Raises:
        UnsupportedTypeError: it does.
    """
    if _codec is not None and not _codec.supports(dtype.number):
        raise UnsupportedTypeError(f"Current ONNX package does not support {dtype.name}. Please upgrade ONNX to the latest version.")
