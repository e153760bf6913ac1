"""The structure of a model file as a message, with large weights left in the file."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from onnx_gs.errors import ModelFileError
from onnx_gs.io import wire
from onnx_gs.io.regions import MemoryFile, SourceFile, write_all

if TYPE_CHECKING:
    from onnx_gs.io.wire import Field, Walker

#: A file from this size on is walked through a window; a smaller one is mapped, and a smaller stream kept in memory.
SMALL_FILE = 32 << 20
#: A file below this size is parsed whole, as is one with less than ``BYTES_A_FIELD`` to a field: there is little to leave out.
TINY_FILE = 1 << 20
BYTES_A_FIELD = 1 << 10
#: Contents of ``raw_data`` from this size on stay in the file.
LARGE_WEIGHT = 4 << 10

_RAW_DATA = 9
_EXTERNAL_DATA = 13
_MANY_FIELDS = 10_000
#: Notes for people, in which old exporters left anything; nothing of ours looks into them.
_NOTES = frozenset({"doc_string", "metadata_props", "producer_name", "producer_version"})


class _Kind(NamedTuple):
    """Which fields of a message lead to weights, by number; ``single`` are those that protobuf merges when they are repeated."""

    inside: dict[int, str]
    single: frozenset[int] = frozenset()


_KINDS: dict[str, _Kind] = {
    "model": _Kind({7: "graph", 25: "function"}),
    "graph": _Kind({1: "node", 5: "tensor", 15: "sparse"}),
    "function": _Kind({7: "node", 11: "attribute"}),
    "node": _Kind({5: "attribute"}),
    "attribute": _Kind({5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"}, frozenset({5, 22})),
    "sparse": _Kind({1: "tensor", 2: "tensor"}, frozenset({1, 2})),
}


class Outline(NamedTuple):
    """A model's structure; where weights were left in the file, the file, and whether some are in attributes."""

    model: onnx.ModelProto
    file: SourceFile | None = None
    in_attributes: bool = False


def outline(path: str | os.PathLike[str]) -> Outline:
    """Read the structure of a model file.

    Args:
        path: the file.

    Returns:
        The model; the file in which its large weights are, None where there are none; and whether some are in attributes. ``inline_region`` tells
        which and where.

    Raises:
        ModelFileError: the file cannot be read, or is no ONNX model.
    """
    file = SourceFile.of(path)
    file.name = os.fspath(path)
    return outline_file(file)


def outline_stream(stream: IO[bytes]) -> Outline:
    """Read the structure of a model from a stream of bytes; a large one is kept in an unnamed temporary file.

    Raises:
        ModelFileError: what comes is no ONNX model.
    """
    start = stream.read(SMALL_FILE)
    if len(start) < SMALL_FILE:
        rest = stream.read(SMALL_FILE - len(start))
        while rest and len(start) + len(rest) < SMALL_FILE:
            start += rest
            rest = stream.read(SMALL_FILE - len(start))
        start += rest
    if len(start) < SMALL_FILE:
        return _outline_content(start, "<stream>")
    with tempfile.TemporaryFile(buffering=0) as spool:
        while start:
            write_all(spool.fileno(), start)
            start = stream.read(1 << 20)
        return outline_file(SourceFile.adopt(os.dup(spool.fileno()), "<stream>"))


def outline_file(file: SourceFile) -> Outline:
    """Read the structure of an open model file, as ``outline`` does."""
    if file.size >= SMALL_FILE:
        return _outlined(file, _Skeleton(file))
    content = file.mapping(file.size) if file.size >= TINY_FILE and file.may_stay_open() else None
    if content is None:
        return _outline_content(file.read(0, file.size), file.name)
    with suppress(wire.FieldLimitError):
        return _outlined(file, _Skeleton(wire.Memory(content, file.name), file.size // BYTES_A_FIELD))
    return _parsed_whole(file.read(0, file.size), file.name)


def _outline_content(content: bytes, name: str) -> Outline:
    if len(content) >= TINY_FILE:
        file = MemoryFile(content, name)
        with suppress(wire.FieldLimitError):
            return _outlined(file, _Skeleton(file, len(content) // BYTES_A_FIELD))
    return _parsed_whole(content, name)


def _parsed_whole(content: bytes, name: str) -> Outline:
    return Outline(_parsed(content, wire.Memory(content, name)))


def _outlined(file: SourceFile, skeleton: _Skeleton) -> Outline:
    message = skeleton.build()
    model = _parsed(message, file, skeleton=True)
    if not skeleton.left:
        return Outline(model)
    file.pin()
    return Outline(model, file, skeleton.in_attributes)


def inline_region(tensor: onnx.TensorProto) -> tuple[int, int] | None:
    """Give offset and length of a weight that was left in the model's own file; None for any other.

    Only for tensors of an ``Outline`` that has a file: only this process knows the key, so no file can hold it.
    """
    for entry in reversed(tensor.external_data):
        if entry.key == wire.INLINE_KEY:
            offset, _, length = entry.value.partition(",")
            return int(offset), int(length)
    return None


def placeholder(offset: int, length: int) -> bytes:
    """Encode the ``external_data`` entry that stands for a weight left in the file."""
    key, value = wire.INLINE_KEY.encode(), f"{offset},{length}".encode()
    entry = wire.header(1, len(key)) + key + wire.header(2, len(value)) + value
    return wire.header(_EXTERNAL_DATA, len(entry)) + entry


class _Skeleton:
    """Copies a file without its large weights.

    Attributes:
        left: how many weights were left out.
        in_attributes: are some of them in attributes of nodes or functions?
    """

    def __init__(self, file: wire.Readable, fields: int | None = None) -> None:
        self._file = file
        self._walker: Walker = wire.Walker(file, fields)
        self._pieces: list[tuple[int, int] | bytes] = []
        self.left = 0
        self.in_attributes = False

    def build(self) -> bytes:
        """Give the message."""
        size = self._message("model", 0, self._file.size, 0)
        if size > wire.MESSAGE_LIMIT:
            what = f"the structure of the model takes {size} bytes, more than protobuf can parse"
            raise ModelFileError(what, where=f"file '{self._file.name}'", fix="store weights as raw_data or external data")
        if self._walker.whole is not None:
            view = memoryview(self._walker.whole)
            return b"".join([p if isinstance(p, bytes) else view[p[0] : p[1]] for p in self._pieces])
        return b"".join([p if isinstance(p, bytes) else self._file.read(p[0], p[1] - p[0]) for p in self._pieces])

    def _copy(self, start: int, end: int) -> int:
        if end > start:
            self._pieces.append((start, end))
        return end - start

    def _message(self, kind: str, start: int, end: int, depth: int) -> int:
        """Append the pieces of a message; give its new length."""
        if depth > wire.DEPTH_LIMIT:
            raise self._walker.fail(f"messages nest more than {wire.DEPTH_LIMIT} deep", start)
        leads, single = _KINDS[kind]
        if single:
            counts: Counter[int] = Counter()
            fields = []
            for field in self._walker.fields(start, end):
                if field.number in single:
                    counts[field.number] += 1
                if field.kind == wire.BYTES and field.end - field.content >= LARGE_WEIGHT:
                    fields.append(field)
            fields = [f for f in fields if counts[f.number] < 2]  # protobuf merges what is repeated; leave that to it
        else:
            fields = self._walker.large_fields(start, end, LARGE_WEIGHT)
        total, copied = 0, start
        for field in fields:
            if field.number not in leads:
                continue
            total += self._copy(copied, field.start) + self._inside(leads[field.number], field, depth, kind)
            copied = field.end
        return total + self._copy(copied, end)

    def _inside(self, kind: str, field: Field, depth: int, of: str) -> int:
        slot = len(self._pieces)
        self._pieces.append(b"")
        start, end = field.content, field.end
        before = self.left
        length = self._tensor(start, end) if kind == "tensor" else self._message(kind, start, end, depth + 1)
        self.in_attributes |= of == "attribute" and kind != "graph" and self.left > before
        head = wire.header(field.number, length)
        self._pieces[slot] = head
        return len(head) + length

    def _tensor(self, start: int, end: int) -> int:
        raw: list[Field] = []
        if self._walker.whole is not None:  # at hand, walking is cheaper than parsing: there is no limit to how many fields
            raw = [f for f in self._walker.large_fields(start, end, LARGE_WEIGHT, _RAW_DATA) if f.number == _RAW_DATA]
        else:
            for count, field in enumerate(self._walker.fields(start, end)):
                if count == _MANY_FIELDS:  # numbers one by one, as old writers do
                    return self._copy(start, end)
                if field.number == _RAW_DATA:
                    raw.append(field)
        if len(raw) != 1 or raw[0].kind != wire.BYTES or raw[0].end - raw[0].content < LARGE_WEIGHT:
            return self._copy(start, end)
        field = raw[0]
        entry = placeholder(field.content, field.end - field.content)
        total = self._copy(start, field.start) + len(entry)
        self._pieces.append(entry)
        self.left += 1
        return total + self._copy(field.end, end)


def _parsed(content: bytes, source: wire.Readable, *, skeleton: bool = False) -> onnx.ModelProto:
    """Parse a model, or say where its bytes are wrong."""
    where = f"file '{source.name}'"
    if not content:
        raise ModelFileError("the file is empty", where=where)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, RuntimeError, ValueError) as error:
        # A skeleton was walked already where weights can be; what is left is rare, so its offset is that of the copy.
        _diagnose(wire.Memory(content, source.name), onnx.ModelProto.DESCRIPTOR)
        what = "protobuf cannot parse the model's structure" if skeleton else "protobuf cannot parse the model"
        raise ModelFileError(f"{what}, which begins at byte 0: {error}", where=where, fix="the file is damaged or no ONNX model") from error
    if not model.HasField("graph"):
        what = f"the model ends at byte {source.size} without a graph"
        raise ModelFileError(what, where=where, fix="the file is cut short or no ONNX model")
    return model


def check_text(path: str) -> None:
    """Raise for the first name in a model's file that is no UTF-8; return where there is none.

    Raises:
        ModelFileError: there is one; it tells where.
    """
    file = SourceFile.of(path)
    file.name = path
    _diagnose(file, onnx.ModelProto.DESCRIPTOR)


def _diagnose(source: wire.Readable, descriptor: Any) -> None:
    """Raise for the first byte that is wrong; return where nothing is found.

    Raises:
        ModelFileError: always, where a length, a number, a name or the nesting is wrong.
    """
    walker = wire.Walker(source)
    pending = [(descriptor, walker.fields(0, source.size))]
    while pending:
        kind, fields = pending[-1]
        field = next(fields, None)
        if field is None:
            pending.pop()
            continue
        known = kind.fields_by_number.get(field.number)
        if field.kind != wire.BYTES or known is None:
            continue
        if known.type == FieldDescriptor.TYPE_STRING and known.name not in _NOTES:
            try:
                source.read(field.content, field.end - field.content).decode()
            except UnicodeDecodeError as error:
                raise walker.fail("a name is not UTF-8", field.content) from error
        if known.message_type is None:
            continue
        if len(pending) > wire.DEPTH_LIMIT:
            raise walker.fail(f"messages nest more than {wire.DEPTH_LIMIT} deep", field.start)
        pending.append((known.message_type, walker.fields(field.content, field.end)))
