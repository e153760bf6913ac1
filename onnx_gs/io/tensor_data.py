"""Weights: ``TensorProto`` and ``SparseTensorProto`` to arrays and back, every element type, bit for bit."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx

from onnx_gs.errors import GraphError, GraphTypeError, UnsupportedTypeError
from onnx_gs.io import types
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.tensor import Constant

Array = np.ndarray[Any, Any]

#: The typed field that holds values of each element type.
_FIELDS: dict[DataType, str] = {
    dtypes.FLOAT: "float_data",
    dtypes.COMPLEX64: "float_data",
    dtypes.DOUBLE: "double_data",
    dtypes.COMPLEX128: "double_data",
    dtypes.INT64: "int64_data",
    dtypes.UINT32: "uint64_data",
    dtypes.UINT64: "uint64_data",
    dtypes.STRING: "string_data",
}
_WIDE: dict[str, Any] = {"int64_data": np.int64, "uint64_data": np.uint64}
EXTERNAL = 1  # onnx.TensorProto.EXTERNAL
_LITTLE = sys.byteorder == "little"


def is_sparse(proto: Any) -> bool:
    """Say whether a message is a ``SparseTensorProto``."""
    return isinstance(proto, onnx.SparseTensorProto)


def name_of(proto: Any) -> str:
    """Give the name of a weight, dense or sparse."""
    return str(proto.values.name if is_sparse(proto) else proto.name)


def shape_of(proto: Any) -> tuple[int, ...]:
    """Give the shape of a weight, or of a value description."""
    if isinstance(proto, onnx.ValueInfoProto):
        found = types.decode_value(proto)
        return tuple(found.leaf().shape or ()) if found is not None else ()  # type: ignore[arg-type]
    return tuple(proto.dims)


def nbytes_of(proto: Any) -> int:
    """Give the bytes of a weight, dense or sparse, as a dense array; 0 where its element type is not known."""
    if isinstance(proto, onnx.TensorProto):  # without making a dtype, as for most
        known, shape = dtypes.BY_NUMBER.get(proto.data_type), proto.dims[:]
    else:
        known, shape = dtypes.find(dtype_of(proto)), shape_of(proto)
    return 0 if known is None else math.prod(shape) * known.numpy.itemsize


def kinds_of(weights: Iterable[Constant]) -> set[tuple[int, int]]:
    """Give the numbers of the element types, and the ranks, that occur among weights; of untouched imports right from their messages."""
    found: set[tuple[int, int]] = set()
    for t in weights:
        message = t._source
        if message.__class__ is onnx.TensorProto and not t.__dict__:  # other values than those of the import leave a note there
            found.add((message.data_type, len(message.dims)))
        else:
            known = dtypes.of(t)
            found.add((0 if known is None else known.number, len(t.shape)))
    return found


def dtype_of(proto: Any) -> Any:
    """Give the public dtype of a weight, or of a value description."""
    if isinstance(proto, onnx.ValueInfoProto):
        found = types.decode_value(proto)
        return found.leaf().dtype if found is not None else None
    return types.public_dtype(proto.values.data_type if is_sparse(proto) else proto.data_type)


def _where(proto: Any) -> str:
    return f"tensor '{name_of(proto)}'"


def _checked(proto: Any) -> tuple[DataType, tuple[int, ...], int]:
    shape = tuple(proto.dims[:])
    if shape and min(shape) < 0:
        raise GraphError(f"dims {list(shape)} of a stored tensor are negative", where=_where(proto), fix="the model is damaged; export it again")
    known = dtypes.BY_NUMBER.get(proto.data_type)
    if known is None:
        raise GraphError(
            f"element type {proto.data_type} is unknown to this version", where=_where(proto), fix="upgrade onnx_gs, or leave the values unread"
        )
    count = math.prod(shape)
    if not count and math.prod(d for d in shape if d) * known.numpy.itemsize > sys.maxsize:  # numpy makes no such array, though it is empty
        raise GraphError(f"dims {list(shape)} of a stored tensor are too large", where=_where(proto), fix="the model is damaged; export it again")
    return known, shape, count


def _wrong_size(proto: Any, what: str, have: int, need: int) -> GraphError:
    return GraphError(f"{what} has {have}, but dims {list(proto.dims)} need {need}", where=_where(proto), fix="the model is damaged; export it again")


def unpack(stored: Array, known: DataType, count: int) -> Array:
    """Give the elements of packed bytes (``uint8``), lowest bits first."""
    if known.bits in {4, 2}:
        steps = 8 // known.bits
        mask = (1 << known.bits) - 1
        bits = np.empty((stored.size, steps), np.uint8)
        for k in range(steps):
            bits[:, k] = (stored >> (known.bits * k)) & mask
    else:  # 6 bits: four elements in three bytes
        padded = np.zeros(-(-stored.size // 3) * 3, np.uint32)
        padded[: stored.size] = stored
        words = padded[0::3] | (padded[1::3] << 8) | (padded[2::3] << 16)
        bits = np.empty((words.size, 4), np.uint8)
        for k in range(4):
            bits[:, k] = (words >> (6 * k)) & 0x3F
    flat = bits.reshape(-1)[:count]
    return _few_bits(flat, known)


def _few_bits(low: Array, known: DataType) -> Array:
    """Give elements of their low bits; the bytes of signed ones are as ml_dtypes itself makes them, which depends on its version."""
    if known.kind != "int":
        return low.view(known.numpy)
    shift = 8 - known.bits
    return ((low << shift).astype(np.int8) >> shift).astype(known.numpy)


def pack(values: Array, known: DataType) -> bytes:
    """Give the bytes of an array as ONNX stores them: little-endian, small types packed, lowest bits first."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if known.bits % 8 == 0:
        return (flat if _LITTLE or flat.dtype.itemsize == 1 else flat.byteswap()).tobytes()
    bits = flat.view(np.uint8) & ((1 << known.bits) - 1)
    if known.bits == 6:
        wide = np.zeros(-(-bits.size // 4) * 4, np.uint32)
        wide[: bits.size] = bits
        words = wide[0::4] | (wide[1::4] << 6) | (wide[2::4] << 12) | (wide[3::4] << 18)
        whole = np.stack([words & 0xFF, (words >> 8) & 0xFF, words >> 16], axis=1).astype(np.uint8).reshape(-1)
        return whole[: known.nbytes(bits.size)].tobytes()
    steps = 8 // known.bits
    padded = np.zeros(-(-bits.size // steps) * steps, np.uint8)
    padded[: bits.size] = bits
    packed = np.zeros(padded.size // steps, np.uint8)
    for k in range(steps):
        packed |= padded[k::steps] << (known.bits * k)
    return packed.tobytes()


def _from_bytes(proto: Any, stored: Array, known: DataType, shape: tuple[int, ...], count: int) -> Array:
    if stored.size != known.nbytes(count):
        raise _wrong_size(proto, "raw data", stored.size, known.nbytes(count))
    if known.bits % 8:
        found = unpack(stored, known, count)
        found.flags.writeable = False
        return found.reshape(shape)
    found = stored.view(known.numpy if _LITTLE or known.bits == 8 else known.numpy.newbyteorder("<"))
    if not found.dtype.isnative:
        found = found.astype(known.numpy)
        found.flags.writeable = False
    return found.reshape(shape)


def _from_fields(proto: Any, known: DataType, shape: tuple[int, ...], count: int) -> Array:
    field = _FIELDS.get(known, "int32_data")
    items = getattr(proto, field)
    need = count * 2 if known.kind == "complex" else count
    if known.bits and known.bits < 8:
        need = known.nbytes(count)
    if len(items) != need:
        raise _wrong_size(proto, f"field '{field}'", len(items), need)
    if known is dtypes.STRING:
        found = np.empty(count, object)
        found[:] = [_text(item) for item in items]
        return found.reshape(shape)
    if known.kind == "complex":
        parts = np.fromiter(items, np.float32 if known is dtypes.COMPLEX64 else np.float64, need)
        return parts.view(known.numpy).reshape(shape)
    if known in {dtypes.FLOAT, dtypes.DOUBLE}:
        return _packed(items, field, known, count).reshape(shape)
    if field != "int32_data":
        wide = np.fromiter(items, _WIDE[field], need)
        return wide.astype(known.numpy, copy=False).reshape(shape)
    whole = np.fromiter(items, np.int32, need)
    if known.bits < 8:
        return unpack(whole.astype(np.uint8), known, count).reshape(shape)
    if known.kind == "float":  # the bits of a short float
        return whole.astype(np.uint8 if known.bits == 8 else np.uint16).view(known.numpy).reshape(shape)
    return whole.astype(known.numpy).reshape(shape)


def _packed(items: Any, field: str, known: DataType, count: int) -> Array:
    """Give the numbers of a packed field by way of the wire format, where they lie as an array does: one by one takes a hundred times as long."""
    alone = onnx.TensorProto()
    getattr(alone, field).MergeFrom(items)
    content = alone.SerializeToString()
    size = known.numpy.itemsize
    found = np.frombuffer(content, known.numpy.newbyteorder("<"), count, len(content) - count * size) if count else np.zeros(0, known.numpy)
    return found.astype(known.numpy)  # a copy of their own, as of all that is decoded from fields


def _text(item: bytes) -> str | bytes:
    try:
        return item.decode()
    except UnicodeDecodeError:
        return item


def load(proto: Any, region: Any = None, *, peek: bool = False) -> Array:
    """Read a weight: from the region of a file, or else from the message.

    Arrays over raw bytes or a file are read-only; those decoded from typed fields are not. With ``peek``, the array is for a look only.

    Raises:
        GraphError: the message is malformed, or of an element type unknown to this version.
        ModelFileError: the file cannot be read.
    """
    if isinstance(proto, onnx.ValueInfoProto):
        raise GraphError("a value description holds no values", where=f"value '{proto.name}'", fix="load a TensorProto")
    if is_sparse(proto):
        return _load_sparse(proto, region)
    known, shape, count = _checked(proto)
    if region is None and proto.data_location == EXTERNAL:
        from onnx_gs.io import external_data

        region = external_data.locate(proto, "")
    if region is not None:
        if known is dtypes.STRING:
            raise GraphError("strings cannot be stored outside the message", where=_where(proto))
        if region.length != known.nbytes(count):
            raise _wrong_size(proto, "external data", region.length, known.nbytes(count))
        return _from_bytes(proto, region.peek() if peek else region.view(), known, shape, count)
    if proto.HasField("raw_data"):
        if known is dtypes.STRING:
            raise GraphError("strings cannot be stored as raw data", where=_where(proto))
        return _from_bytes(proto, np.frombuffer(proto.raw_data, np.uint8), known, shape, count)
    return _from_fields(proto, known, shape, count)


def raw(proto: Any) -> bytes | None:
    """Give the bytes of a dense weight that its message stores as such, each element in whole bytes; None for all others. Nothing is checked."""
    if type(proto) is not onnx.TensorProto or proto.data_location == EXTERNAL or not proto.HasField("raw_data"):
        return None
    known = dtypes.BY_NUMBER.get(proto.data_type)
    return bytes(proto.raw_data) if known is not None and known.bits >= 8 else None


def _load_sparse(proto: Any, region: Any) -> Array:
    where = _where(proto)
    known, _, stored = _checked(proto.values)
    shape = tuple(proto.dims)
    if any(d < 0 for d in shape):
        raise GraphError(f"dims {list(shape)} of a sparse tensor are negative", where=where)
    values_at, indices_at = region if isinstance(region, tuple) else (region, None)
    values = load(proto.values, values_at).reshape(-1)
    if proto.indices.data_type not in {0, dtypes.INT64.number}:
        raise GraphError(f"indices of a sparse tensor have type {proto.indices.data_type}, not INT64", where=where)
    indices = load(proto.indices, indices_at) if proto.HasField("indices") else np.zeros(0, np.int64)
    layout = indices.shape
    if layout not in {(stored,), (stored, len(shape))}:
        wanted = f"[{stored}] or [{stored}, {len(shape)}]"
        raise GraphError(f"indices of a sparse tensor have shape {list(layout)}, not {wanted}", where=where)
    count = math.prod(shape)
    if count * max(1, known.numpy.itemsize) > sys.maxsize:
        raise GraphError(f"dims {list(shape)} of a sparse tensor are too large", where=where)
    if indices.ndim == 1:
        flat = indices
        bad = (flat < 0) | (flat >= count)
    else:
        bounds = np.array(shape, np.int64)
        bad = ((indices < 0) | (indices >= bounds)).any(axis=1)
        strides = np.array([math.prod(shape[k + 1 :]) for k in range(len(shape))], np.int64)
        flat = indices @ strides
    if bad.any():
        first = int(np.argmax(bad))
        raise GraphError(f"index {indices[first].tolist()} of a sparse tensor lies outside shape {list(shape)}", where=where)
    try:
        dense = np.full(count, "", object) if known is dtypes.STRING else np.zeros(count, known.numpy)
    except MemoryError as error:
        raise GraphError(f"dims {list(shape)} of a sparse tensor are too large", where=where) from error
    dense[flat] = values
    return dense.reshape(shape)


def supports(number: int) -> bool:
    """Say whether the installed ``onnx`` knows an element type; asked anew each time."""
    known = dtypes.BY_NUMBER.get(number)
    return known is not None and hasattr(onnx.TensorProto, known.name)


def stored(values: Array, known: DataType) -> Any:
    """Give the bytes of an array as ONNX stores them, as a buffer; without a copy where the array has them so."""
    values = native(values)
    if known.bits % 8 or not _LITTLE:
        return pack(values, known)
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def check_supported(known: DataType) -> None:
    """Raise where the installed ``onnx`` lacks an element type.

    Raises:
        UnsupportedTypeError: it does.
    """
    if not hasattr(onnx.TensorProto, known.name):
        raise UnsupportedTypeError(f"Current ONNX package does not support {known.name}. Please upgrade ONNX to the latest version.")


def native(values: Array) -> Array:
    """Give an array in this machine's byte order, with text as an object array."""
    if values.dtype.kind in "UST":
        return values.astype(object)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def write(proto: Any, values: Array, known: DataType, name: str) -> None:
    """Store an array in a ``TensorProto`` whose fields for values are empty: raw data, or string data.

    Raises:
        GraphError: an element of a string tensor is neither text nor bytes.
        UnsupportedTypeError: the installed ``onnx`` lacks the element type.
    """
    check_supported(known)
    proto.name = name
    proto.data_type = known.number
    proto.dims.extend(values.shape)
    if known is not dtypes.STRING:
        proto.raw_data = pack(native(values), known)
        return
    for item in values.reshape(-1):
        if not isinstance(item, (str, bytes)):
            raise GraphError(f"{item!r:.40} in a string tensor is neither text nor bytes", where=f"tensor '{name}'", fix="give str or bytes elements")
        proto.string_data.append(item.encode() if isinstance(item, str) else item)


def cast(values: Array, wanted: DataType, name: str = "") -> Array:
    """Convert an array by the rules of ONNX ``Cast`` with its default attributes: float8 saturates, float8e8m0 rounds up.

    Raises:
        GraphError: ``Cast`` has no rule for these two types.

    Spec: ``ai.onnx::Cast-24``.
    """
    values = native(values)
    held = dtypes.require(values.dtype)
    if held is wanted:
        return values
    where = f"tensor '{name}'"
    if held.kind == "complex" or wanted.kind == "complex" or wanted is dtypes.STRING:
        if held.kind == wanted.kind:
            return values.astype(wanted.numpy)
        raise GraphError(f"values of {held.name} cannot be exported as {wanted.name}", where=where, fix="convert the values yourself")
    if held is dtypes.STRING:
        try:
            texts = [t.decode() if isinstance(t, bytes) else str(t) for t in values.reshape(-1)]
            read = int if wanted.kind in {"int", "uint"} else float
            numbers: Any = [read(t) for t in texts]
            values = np.array(numbers, np.int64 if read is int else np.float64).reshape(values.shape)
        except (ValueError, UnicodeDecodeError, OverflowError) as error:
            raise GraphError(f"text cannot be exported as {wanted.name}: {error}", where=where) from error
    if values.dtype.kind not in "biufc":  # ml_dtypes convert exactly through these
        values = values.astype(np.float32 if held.kind == "float" else np.int64 if held.kind == "int" else np.uint64)
    with np.errstate(all="ignore"):
        if wanted is dtypes.BOOL:
            return np.not_equal(values, 0).astype(np.bool_)
        if wanted is dtypes.FLOAT8E8M0:
            return _to_scale(values)
        if wanted.kind == "float" and wanted.bits <= 8:
            info = ml_dtypes.finfo(wanted.numpy)
            values = values.astype(np.float64) if values.dtype.itemsize == 8 else values.astype(np.float32)
            clipped: Array = np.clip(values, values.dtype.type(info.min), values.dtype.type(info.max))
            return clipped.astype(wanted.numpy)
        if wanted.kind in {"int", "uint"} and wanted.bits < 8:
            return _to_few_bits(values, wanted)
        return values.astype(wanted.numpy)


def _to_few_bits(values: Array, wanted: DataType) -> Array:
    """Truncate to integers and keep the low bits, as integer casts do."""
    whole = values.astype(np.int64) if values.dtype.kind == "f" else values
    return _few_bits((whole & ((1 << wanted.bits) - 1)).astype(np.uint8), wanted)


def _to_scale(values: Array) -> Array:
    """Round up to a power of two, saturating: the exponent of a float32 is the value."""
    bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    exponent = ((bits >> 23) & 0xFF).astype(np.uint16)
    up = ((bits & 0x7FFFFF) > 0) & (exponent < 0xFE)
    return np.where(exponent == 0xFF, 0xFF, exponent + up).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def encode(values: Array, name: str, export_dtype: Any = None) -> onnx.TensorProto:
    """Give a ``TensorProto`` of an array, converted by the rules of ONNX ``Cast`` where another element type is wanted.

    Raises:
        GraphTypeError: the array's dtype is no ONNX element type.
        UnsupportedTypeError: the installed ``onnx`` lacks the element type.
    """
    known = known_of(values, name)
    wanted = dtypes.require(export_dtype) if export_dtype is not None else known
    check_supported(wanted)
    proto = onnx.TensorProto()
    write(proto, values if wanted is known else cast(values, wanted, name), wanted, name)
    return proto


def known_of(values: Array, name: str) -> DataType:
    """Give the element type of an array.

    Raises:
        GraphTypeError: its dtype is no ONNX element type.
    """
    known = dtypes.find(values.dtype)
    if known is None:
        raise GraphTypeError(f"values have dtype {values.dtype}, which ONNX cannot store", where=f"tensor '{name}'", fix="convert them with astype")
    return known


def data_location(proto: Any) -> int | None:
    """Give the ``DataLocation`` number that a weight was read with; None where its message has none."""
    holder = proto.values if is_sparse(proto) else proto
    return int(holder.data_location) if holder.HasField("data_location") else None


def bare(target: Any) -> None:
    """Take from a copied message the note that its bytes are in a file."""
    target.ClearField("external_data")
    if target.data_location == EXTERNAL:
        target.ClearField("data_location")


def whole(proto: Any, region: Any) -> Any:
    """Give a copy of a weight's message that holds its bytes itself."""
    copied = type(proto)()
    copied.CopyFrom(proto)
    if is_sparse(proto):
        parts = [copied.values, copied.indices]
        regions = list(region) if isinstance(region, tuple) else [region, None]
    else:
        parts, regions = [copied], [region]
    for part, stored in zip(parts, regions):
        if stored is not None:
            bare(part)
            part.raw_data = stored.read()
    return copied
