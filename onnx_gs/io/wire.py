"""Just enough of protobuf's wire format: find fields by offset, and rewrite a message around bytes that are elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from onnx_gs.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The key of the ``external_data`` entry that stands for a ``raw_data`` left in the model's own file: ``"offset,length"``.
INLINE_KEY = "onnx_gs.inline"
#: What protobuf can hold in one message.
MESSAGE_LIMIT = 2**31 - 1
#: How deep protobuf lets messages nest.
DEPTH_LIMIT = 100
#: Fields looked at in one file before it is taken for a bomb.
FIELD_LIMIT = 20_000_000

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
BLOCK = 64 << 10
_HEADER = 20  # a tag and a length take at most ten bytes each


class Readable(Protocol):
    """What fields are read from: a file, or bytes."""

    name: str
    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Give ``length`` bytes at ``offset``."""


class Memory:
    """Bytes to read fields from."""

    def __init__(self, content: bytes, name: str) -> None:
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
    """

    def __init__(self, source: Readable) -> None:
        """Start with an empty window."""
        self.source = source
        self._window = b""
        self._base = 0
        self._seen = 0

    def fail(self, what: str, offset: int) -> ModelFileError:
        """Make the error for a fault at a byte of the file."""
        return ModelFileError(f"{what} at byte {offset}", where=f"file '{self.source.name}'", fix="the file is damaged or no ONNX model")

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """Give the fields of the message between two offsets, in their order.

        Raises:
            ModelFileError: a field is malformed, or does not end where the message does.
        """
        window, base = self._window, self._base
        at = start
        while at < end:
            here = at - base
            if here < 0 or here + _HEADER > len(window):
                # The window may end at the end of the file; a header that is cut there fails below.
                if here < 0 or base + len(window) < self.source.size:
                    window = self.source.read(at, min(BLOCK, self.source.size - at))
                    base = self._base = at
                    self._window = window
                here = at - base
            self._seen += 1
            if self._seen > FIELD_LIMIT:
                raise self.fail(f"more than {FIELD_LIMIT} fields", at)
            first = window[here]
            if first < 0x80:
                tag, after = first, here + 1
            else:
                tag, after = self._varint(window, here, base, end)
            number, kind = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise self.fail(f"field number {number}", at)
            if kind == BYTES:
                if after < len(window) and window[after] < 0x80 and base + after < end:
                    length, after = window[after], after + 1
                else:
                    length, after = self._varint(window, after, base, end)
            elif kind == VARINT:
                _, after = self._varint(window, after, base, end)
                length = 0
            elif kind == FIXED64:
                length = 8
            elif kind == FIXED32:
                length = 4
            else:
                raise self.fail(f"wire type {kind}, which ONNX does not use,", at)
            content = base + after
            if length > end - content:
                raise self.fail(f"field {number} claims {length} bytes, but {max(end - content, 0)} are left,", at)
            stop = content + length
            yield Field(number, kind, at, content, stop)
            window, base = self._window, self._base
            at = stop

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
        holes: the contents to replace, in their order; each is the whole content of a length-delimited field.

    Returns:
        What to write, piece by piece, where a hole stands for its replacement; and the number of bytes in all.
    """
    if not holes:
        return [memoryview(message)], len(message)
    pieces: list[memoryview | bytes | Hole] = []
    view = memoryview(message)
    walker = Walker(Memory(message, "<message>"))

    def rewrite(start: int, end: int, first: int, last: int) -> int:
        """Append the pieces of one message that has the holes ``first`` to ``last``; give its new length."""
        total, copied, at = 0, start, first
        for field in walker.fields(start, end):
            if at == last:
                break
            if field.kind != BYTES or holes[at].start >= field.end:
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
