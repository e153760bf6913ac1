"""Just enough of protobuf's wire format: find fields by offset, and rewrite a message around bytes that are elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onnx_gs.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from mmap import mmap

#: The key of the ``external_data`` entry that stands for a ``raw_data`` left in the model's own file: ``"offset,length"``. No file can know it.
INLINE_KEY = f"onnx_gs.inline.{os.urandom(16).hex()}"
#: What protobuf can hold in one message.
MESSAGE_LIMIT = 2**31 - 1
#: How deep protobuf lets messages nest.
DEPTH_LIMIT = 100
#: Fields looked at in one file before it is taken for a bomb.
FIELD_LIMIT = 20_000_000

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
BLOCK = 64 << 10
_HEADER = 20  # a tag and a length take at most ten bytes each
_BYTES_TAGS = frozenset(number << 3 | BYTES for number in range(1, 16))
_VARINT_TAGS = frozenset(number << 3 | VARINT for number in range(1, 16))


class FieldLimitError(ModelFileError):
    """A walk met more fields than it was meant for."""


class Readable(Protocol):
    """What fields are read from: a file, or bytes."""

    name: str
    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Give ``length`` bytes at ``offset``."""


class Memory:
    """Bytes to read fields from."""

    def __init__(self, content: bytes | mmap, name: str) -> None:
        """Keep the bytes, and what errors call them."""
        self.content = content
        self.name = name
        self.size = len(content)

    def read(self, offset: int, length: int) -> bytes:
        """Give ``length`` bytes at ``offset``."""
        return self.content[offset : offset + length]


class Field(NamedTuple):
    """Where a field is: its tag begins at ``start``, its content at ``content``, and it ends before ``end``."""

    number: int
    kind: int
    start: int
    content: int
    end: int


def varint(value: int) -> bytes:
    """Encode a non-negative integer.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def header(number: int, length: int) -> bytes:
    """Encode tag and length of a length-delimited field."""
    return varint(number << 3 | BYTES) + varint(length)


class Walker:
    """Reads the fields of messages in a file, one window of bytes at a time; every length is checked before it is used.

    Args:
        source: the file.
        limit: about how many fields to look at before ``FieldLimitError`` is raised; ``FIELD_LIMIT`` by default.
    """

    def __init__(self, source: Readable, limit: int | None = None) -> None:
        """Start with an empty window."""
        self.source = source
        self._limit = FIELD_LIMIT if limit is None else limit
        #: All bytes, where they are at hand.
        self.whole: bytes | None = getattr(source, "content", None)
        self._window: bytes = b"" if self.whole is None else self.whole
        self._base = 0
        self._last = -1
        self._seen = 0

    def fail(self, what: str, offset: int) -> ModelFileError:
        """Make the error for a fault at a byte of the file."""
        return ModelFileError(f"{what} at byte {offset}", where=f"file '{self.source.name}'", fix="the file is damaged or no ONNX model")

    def fields(self, start: int, end: int, at_least: int = 0) -> Iterator[Field]:
        """Give the fields of the message between two offsets, in their order.

        Args:
            start: where the message begins.
            end: where it ends.
            at_least: give only length-delimited fields with so many bytes, where this is not 0; the others are checked all the same.

        Raises:
            ModelFileError: a field is malformed, or does not end where the message does.
        """
        window, base, limit = self._window, self._base, self._last
        at, seen = start, 0
        while at < end:
            here = at - base
            if here < 0 or here > limit:
                self._seen += seen
                seen = 0
                if self._seen > self._limit:
                    raise FieldLimitError(f"more than {self._limit} fields before byte {at}", where=f"file '{self.source.name}'")
                window, base, limit = self._around(at)
                here = at - base
            seen += 1
            tag = window[here]
            # By far the most fields have a tag of one byte and a length of one or two.
            if tag < 0x80 and tag & 7 == BYTES and tag > 7 and here <= limit:
                length = window[here + 1]
                content = at + 2
                if length >= 0x80:
                    high = window[here + 2]
                    length = length & 0x7F | high << 7 if high < 0x80 else end
                    content += 1
                stop = content + length
                if stop <= end:
                    if length >= at_least:
                        yield Field(tag >> 3, BYTES, at, content, stop)
                        window, base, limit = self._window, self._base, self._last
                    at = stop
                    continue
            if tag < 0x80 and tag & 7 == VARINT and tag > 7 and here <= limit and window[here + 1] < 0x80 and at + 2 <= end:
                if not at_least:  # as the dims and types of weights are
                    yield Field(tag >> 3, VARINT, at, at + 2, at + 2)
                    window, base, limit = self._window, self._base, self._last
                at += 2
                continue
            field = self._field(window, base, at, end)
            if not at_least or (field.kind == BYTES and field.end - field.content >= at_least):
                yield field
                window, base, limit = self._window, self._base, self._last
            at = field.end
        self._seen += seen

    def large_fields(self, start: int, end: int, at_least: int, always: int = 0) -> list[Field]:
        """Give the length-delimited fields of a message that have at least so many bytes, as ``fields`` does; the others are checked all the same.

        Args:
            start: where the message begins.
            end: where it ends.
            at_least: how many bytes, 128 or more.
            always: the number of a field that is given whatever its size; 0 for none.

        Raises:
            ModelFileError: a field is malformed, or does not end where the message does.
        """
        found: list[Field] = []
        if self.whole is None and not always:
            return list(self.fields(start, end, at_least))
        if self.whole is None:
            return [f for f in self.fields(start, end) if f.kind == BYTES and (f.end - f.content >= at_least or f.number == always)]
        window, at, seen, wanted = self._window, start, 0, always << 3 | BYTES
        tags, numbers = _BYTES_TAGS, _VARINT_TAGS
        near = end - _HEADER  # before it, no header ends behind the message
        while at < end:
            seen += 1
            if at < near:
                tag, length = window[at], window[at + 1]
                if tag in tags:
                    if length < 0x80:
                        if tag == wanted:
                            found.append(Field(tag >> 3, BYTES, at, at + 2, at + 2 + length))
                        at += length + 2
                        continue
                    high = window[at + 2]
                    if high < 0x80:
                        length += (high << 7) - 0x80
                        if length >= at_least or tag == wanted:
                            found.append(Field(tag >> 3, BYTES, at, at + 3, at + 3 + length))
                        at += length + 3
                        continue
                elif length < 0x80 and tag in numbers:
                    at += 2
                    continue
            elif self._seen + seen > self._limit:  # asked near the end only, where each message comes by
                break
            field = self._field(window, 0, at, end)
            if field.kind == BYTES and (field.end - field.content >= at_least or field.number == always):
                found.append(field)
            at = field.end
        self._seen += seen
        if at > end or self._seen > self._limit:
            self._seen -= seen
            for _ in self.fields(start, end):  # says which field is to blame
                pass
        return found

    def _around(self, at: int) -> tuple[bytes, int, int]:
        """Give a window that holds the header at an offset, where it begins, and up to where in it whole headers are near that offset.

        At the end of the file the header may be cut off.
        """
        if self.whole is not None:
            self._last = min(len(self._window) - _HEADER, at + BLOCK)
        elif at < self._base or at >= self._base + len(self._window) or self._base + len(self._window) < self.source.size:
            self._window = self.source.read(at, min(BLOCK, self.source.size - at))
            self._base = at
            self._last = len(self._window) - _HEADER
        return self._window, self._base, self._last

    def _field(self, window: bytes, base: int, at: int, end: int) -> Field:
        tag, after = self._varint(window, at - base, base, end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise self.fail(f"field number {number}", at)
        length = 0
        if kind == BYTES:
            length, after = self._varint(window, after, base, end)
        elif kind == VARINT:
            _, after = self._varint(window, after, base, end)
        elif kind in {FIXED64, FIXED32}:
            length = 8 if kind == FIXED64 else 4
        else:
            raise self.fail(f"wire type {kind}, which ONNX does not use,", at)
        content = base + after
        if length > end - content:
            raise self.fail(f"field {number} claims {length} bytes, but {max(end - content, 0)} are left,", at)
        return Field(number, kind, at, content, content + length)

    def _varint(self, window: bytes, at: int, base: int, end: int) -> tuple[int, int]:
        value = shift = 0
        limit = min(len(window), end - base)
        for here in range(at, min(at + 10, limit)):
            byte = window[here]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value, here + 1
            shift += 7
        fault = "a number is cut off" if at + 10 > limit else "a number has more than 64 bits"
        raise self.fail(fault, base + at)


class Hole(NamedTuple):
    """A field's content, from ``start`` to ``end`` in a serialized message, that ``length`` other bytes replace."""

    start: int
    end: int
    length: int
    which: int


def splice(message: bytes, holes: Sequence[Hole]) -> tuple[list[memoryview | bytes | Hole], int]:
    """Rewrite a message around contents of other lengths.

    Args:
        message: a well-formed serialized message.
        holes: the contents to replace, in their order; each is the whole content of a length-delimited field, and not empty.

    Returns:
        What to write, piece by piece, where a hole stands for its replacement; and the number of bytes in all.
    """
    if not holes:
        return [memoryview(message)], len(message)
    pieces: list[memoryview | bytes | Hole] = []
    view = memoryview(message)
    walker = Walker(Memory(message, "<message>"))
    shortest = max(1, min(hole.end - hole.start for hole in holes))

    def rewrite(start: int, end: int, first: int, last: int) -> int:
        """Append the pieces of one message that has the holes ``first`` to ``last``; give its new length."""
        total, copied, at = 0, start, first
        for field in walker.fields(start, end, shortest):
            if at == last:
                break
            if holes[at].start >= field.end:
                continue
            pieces.append(view[copied : field.start])
            total += field.start - copied
            copied = field.end
            slot = len(pieces)
            pieces.append(b"")
            if (holes[at].start, holes[at].end) == (field.content, field.end):
                pieces.append(holes[at])
                length = holes[at].length
                at += 1
            else:
                inside = at
                while inside < last and holes[inside].start < field.end:
                    inside += 1
                length = rewrite(field.content, field.end, at, inside)
                at = inside
            head = header(field.number, length)
            pieces[slot] = head
            total += len(head) + length
        pieces.append(view[copied:end])
        return total + end - copied

    total = rewrite(0, len(message), 0, len(holes))
    return pieces, total
