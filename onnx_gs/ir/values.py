"""Values that are read on first use: shape, dtype and size are known before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.ir import source

if TYPE_CHECKING:
    import numpy as np


class LazyValues:
    """A weight that has not been read: in the message of a model, in the model's file, or in a file beside it.

    Args:
        tensor: an ``onnx.TensorProto``, or an ``onnx.ValueInfoProto`` where only shape and dtype matter.
        region: where a file holds the bytes; None when the message does.

    Example:
        >>> import onnx, numpy as np
        >>> import onnx_gs as gs
        >>> lazy = gs.LazyValues(onnx.numpy_helper.from_array(np.arange(6).reshape(2, 3)))
        >>> lazy.shape, lazy.nbytes, int(lazy.load().sum())
        ((2, 3), 48, 15)
    """

    __slots__ = ("_dtype", "_region", "_shape", "_source")

    def __init__(self, tensor: Any, region: Any = None) -> None:
        """Keep the message; nothing is decoded yet."""
        self._source = tensor
        self._region = region
        self._shape: tuple[int, ...] | None = None
        self._dtype: Any = None

    @property
    def tensor(self) -> Any:
        """The message that the values come from; made whole on request where a file holds them."""
        return self._source if self._region is None else source.codec().tensor_message(self._source, self._region)

    @property
    def region(self) -> Any:
        """The file, offset and length of the bytes; None when the message holds them."""
        return self._region

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims."""
        if self._shape is None:
            self._shape = source.codec().tensor_shape(self._source)
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any] | int:
        """The element type; the enum number for bfloat16, float8 and float4."""
        if self._dtype is None:
            self._dtype = source.codec().tensor_dtype(self._source)
        return self._dtype  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes of the values as a dense array."""
        return source.codec().tensor_nbytes(self._source)

    def load(self) -> np.ndarray[Any, Any]:
        """Read the values.

        Raises:
            ModelFileError: the file that holds them is missing, too short, or not allowed.
            GraphError: the message is malformed.
        """
        return source.codec().load(self._source, self._region)

    def peek(self) -> np.ndarray[Any, Any]:
        """Read the values for a look that keeps none of them: of a file of any size they are a map.

        Raises:
            ModelFileError: as ``load`` does.
            GraphError: as ``load`` does.
        """
        return source.codec().load(self._source, self._region, peek=True)

    def raw(self) -> bytes | None:
        """Give the little-endian bytes where the message holds them plainly, which is quicker than an array of them; None where it does not."""
        return None if self._region is not None else source.codec().raw(self._source)

    def __str__(self) -> str:
        """Show shape and dtype; reads nothing."""
        return f"{type(self).__name__} (shape={self.shape}, dtype={self.dtype})"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle message and file region: weights in a file stay there."""
        return (type(self), (self._source, self._region))

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyValues:
        """Share the message, which nothing of ours changes."""
        return self


class SparseValues(LazyValues):
    """A weight stored as its non-zero values and their indices; ``load()`` gives the dense array.

    Indices of layout ``[NNZ]`` are linear, of ``[NNZ, rank]`` coordinates (ONNX IR, ``SparseTensorProto``).
    """

    __slots__ = ()
