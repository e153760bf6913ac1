"""Element types: one table of ONNX's names and numbers, array dtypes and sizes in bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from onnx_gs.errors import GraphTypeError

if TYPE_CHECKING:
    from onnx_gs.ir.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class DataType:
    """One ONNX element type; there is one object for each, so that they are compared by identity.

    Attributes:
        name: ONNX's name, such as ``"BFLOAT16"``.
        number: its value in ``onnx.TensorProto.DataType``.
        numpy: the array dtype that holds its values exactly (numpy's or ml_dtypes').
        bits: the size of one stored element; 0 for strings, whose size varies.
        by_number: whether scripts see an imported variable of this type as the enum number.
        kind: one of ``"float"``, ``"int"``, ``"uint"``, ``"bool"``, ``"complex"``, ``"string"``.
    """

    name: str
    number: int
    numpy: np.dtype[Any]
    bits: int
    kind: str
    by_number: bool = False

    @property
    def public(self) -> np.dtype[Any] | int:
        """What ``tensor.dtype`` shows for an imported tensor of this type."""
        return self.number if self.by_number else self.numpy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by number."""
        return (_numbered, (self.number,))

    def nbytes(self, count: int) -> int:
        """Bytes that ``count`` packed elements take in a file."""
        return (count * self.bits + 7) // 8


def _type(name: str, number: int, numpy: Any, bits: int, kind: str, *, by_number: bool = False) -> DataType:
    return DataType(name, number, np.dtype(numpy), bits, kind, by_number)


FLOAT = _type("FLOAT", 1, np.float32, 32, "float")
UINT8 = _type("UINT8", 2, np.uint8, 8, "uint")
INT8 = _type("INT8", 3, np.int8, 8, "int")
UINT16 = _type("UINT16", 4, np.uint16, 16, "uint")
INT16 = _type("INT16", 5, np.int16, 16, "int")
INT32 = _type("INT32", 6, np.int32, 32, "int")
INT64 = _type("INT64", 7, np.int64, 64, "int")
STRING = _type("STRING", 8, object, 0, "string")
BOOL = _type("BOOL", 9, np.bool_, 8, "bool")
FLOAT16 = _type("FLOAT16", 10, np.float16, 16, "float")
DOUBLE = _type("DOUBLE", 11, np.float64, 64, "float")
UINT32 = _type("UINT32", 12, np.uint32, 32, "uint")
UINT64 = _type("UINT64", 13, np.uint64, 64, "uint")
COMPLEX64 = _type("COMPLEX64", 14, np.complex64, 64, "complex")
COMPLEX128 = _type("COMPLEX128", 15, np.complex128, 128, "complex")
BFLOAT16 = _type("BFLOAT16", 16, ml_dtypes.bfloat16, 16, "float", by_number=True)
FLOAT8E4M3FN = _type("FLOAT8E4M3FN", 17, ml_dtypes.float8_e4m3fn, 8, "float", by_number=True)
FLOAT8E4M3FNUZ = _type("FLOAT8E4M3FNUZ", 18, ml_dtypes.float8_e4m3fnuz, 8, "float", by_number=True)
FLOAT8E5M2 = _type("FLOAT8E5M2", 19, ml_dtypes.float8_e5m2, 8, "float", by_number=True)
FLOAT8E5M2FNUZ = _type("FLOAT8E5M2FNUZ", 20, ml_dtypes.float8_e5m2fnuz, 8, "float", by_number=True)
UINT4 = _type("UINT4", 21, ml_dtypes.uint4, 4, "uint")
INT4 = _type("INT4", 22, ml_dtypes.int4, 4, "int")
FLOAT4E2M1 = _type("FLOAT4E2M1", 23, ml_dtypes.float4_e2m1fn, 4, "float", by_number=True)
FLOAT8E8M0 = _type("FLOAT8E8M0", 24, ml_dtypes.float8_e8m0fnu, 8, "float")
UINT2 = _type("UINT2", 25, ml_dtypes.uint2, 2, "uint")
INT2 = _type("INT2", 26, ml_dtypes.int2, 2, "int")
FLOAT6E2M3 = _type("FLOAT6E2M3", 27, ml_dtypes.float6_e2m3fn, 6, "float")
FLOAT6E3M2 = _type("FLOAT6E3M2", 28, ml_dtypes.float6_e3m2fn, 6, "float")

ALL: tuple[DataType, ...] = (
    FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128,
    BFLOAT16, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, UINT4, INT4, FLOAT4E2M1, FLOAT8E8M0, UINT2, INT2,
    FLOAT6E2M3, FLOAT6E3M2,
)  # fmt: skip
BY_NUMBER: dict[int, DataType] = {t.number: t for t in ALL}
BY_NAME: dict[str, DataType] = {t.name: t for t in ALL}
_BY_NUMPY: dict[np.dtype[Any], DataType] = {t.numpy: t for t in ALL}


def _numbered(number: int) -> DataType:
    return BY_NUMBER[number]


def find(dtype: Any) -> DataType | None:
    """Give the element type that ``dtype`` means, or None where it means none.

    Args:
        dtype: an ONNX enum number, a numpy or ml_dtypes type or dtype, a ``DataType``, or None.

    Example:
        >>> find(16).name, find(np.float32).name, find("int64").name, find(None)
        ('BFLOAT16', 'FLOAT', 'INT64', None)
    """
    if dtype is None:
        return None
    if isinstance(dtype, np.dtype) and (found := _BY_NUMPY.get(dtype)) is not None:
        return found
    if isinstance(dtype, DataType):
        return dtype
    if isinstance(dtype, (int, np.integer)) and not isinstance(dtype, (bool, np.bool_)):
        return BY_NUMBER.get(int(dtype))
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        return None
    if wanted.kind in "USOT":
        return STRING
    if not wanted.isnative:
        wanted = wanted.newbyteorder("=")
    return _BY_NUMPY.get(wanted)


def require(dtype: Any) -> DataType:
    """Give the element type that ``dtype`` means.

    Raises:
        GraphTypeError: it means no ONNX element type.
    """
    found = find(dtype)
    if found is None:
        raise GraphTypeError(f"dtype {dtype!r} is no ONNX element type", fix="use a numpy or ml_dtypes type, or an onnx.TensorProto number")
    return found


def of(tensor: Tensor) -> DataType | None:
    """Give the element type of a tensor, whatever form its public ``dtype`` has."""
    return find(tensor.dtype)
