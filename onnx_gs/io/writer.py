"""A model to a file: unchanged weights stream from where they are, and the old file stays until the new one is whole."""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import EncodeError

from onnx_gs.errors import ModelFileError
from onnx_gs.io import external_data, regions, wire
from onnx_gs.io.regions import Region, write_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx

    from onnx_gs.io.regions import SourceFile

LOGGER = logging.getLogger("onnx_gs")
#: A tensor with more bytes than this goes to the external file, where there is one.
SIZE_THRESHOLD = 1024
#: What ``external_data=`` takes to keep weights that lie beside the model where they are.
KEEP = "keep"
_COPY = 4 << 20
_LARGE_ATTRIBUTE = 1 << 20

Buffer = Any


@dataclass(slots=True)
class Payload:
    """A weight of a model whose bytes are not in the message.

    Attributes:
        tensor: the message in the model; its ``raw_data`` is not set.
        source: the bytes, as ONNX stores them: a range of a file, or anything with the buffer protocol.
        nbytes: how many there are.
    """

    tensor: onnx.TensorProto
    source: Region | Buffer
    nbytes: int


def write_model(
    model: onnx.ModelProto,
    path: str | os.PathLike[str],
    payloads: Sequence[Payload] = (),
    *,
    external: str | None = None,
    size_threshold: int = SIZE_THRESHOLD,
) -> None:
    """Write a model to a file, and its large weights beside it where that is wanted or needed.

    The files appear whole or not at all: each is written under another name in the same folder, synced, and renamed; first the data, then the model.

    Args:
        model: the model; this call may change it.
        path: the file.
        payloads: the weights that are not in the message, in the order in which they shall be stored.
        external: None for one file (over protobuf's 2 GB, ``<name>.data`` beside it); the name of a data file, relative to the model's folder; or
            ``"keep"``: weights in files of the model's folder stay there, others are appended.
        size_threshold: tensors with more bytes than this go to the data file.

    Raises:
        ModelFileError: the file cannot be written, or a weight cannot be read.
    """
    target = os.fspath(path)
    check_target(target)
    if external is None:
        pieces = _embedded(model, payloads)
        if pieces is not None:
            with _replacing(target) as descriptor:
                _write(descriptor, pieces, payloads)
            return
        external = os.path.basename(target) + ".data"
        LOGGER.info("model takes more than the 2 GB that one file can hold; weights go to '%s' beside it", external)
    if external == KEEP:
        _write_keeping(model, target, payloads, size_threshold)
    else:
        _write_external(model, target, payloads, external, size_threshold)


def write_stream(model: onnx.ModelProto, stream: IO[bytes], payloads: Sequence[Payload] = ()) -> None:
    """Write a model as one piece to a stream of bytes.

    Raises:
        ModelFileError: it takes more than protobuf's 2 GB.
    """
    pieces = _embedded(model, payloads)
    if pieces is None:
        raise ModelFileError("model takes more than the 2 GB that one file can hold", where="stream", fix="save to a path, with external data")
    for piece in pieces:
        if not isinstance(piece, wire.Hole):
            stream.write(piece)
            continue
        payload = payloads[piece.which]
        if isinstance(payload.source, Region):
            for start in range(0, payload.nbytes, _COPY):
                stream.write(payload.source.read(start, min(_COPY, payload.nbytes - start)))
        else:
            stream.write(_bytes(payload.source))


Pieces = list[Any]


def _embedded(model: onnx.ModelProto, payloads: Sequence[Payload]) -> Pieces | None:
    """Give the pieces of the model as one file, or None where it does not fit into one message."""
    if sum(p.nbytes for p in payloads) > wire.MESSAGE_LIMIT:
        return None
    token = secrets.token_bytes(24)
    for index, payload in enumerate(payloads):
        external_data.embed(payload.tensor)
        payload.tensor.raw_data = token + index.to_bytes(4, "little")
    try:
        message = _serialized(model)
    finally:
        for payload in payloads:
            payload.tensor.ClearField("raw_data")
    if message is None:
        return None
    holes = []
    for found in re.finditer(re.escape(token), message):
        index = int.from_bytes(message[found.end() : found.end() + 4], "little")
        holes.append(wire.Hole(found.start(), found.end() + 4, payloads[index].nbytes, index))
    if len(holes) != len(payloads):
        raise ModelFileError(f"{len(payloads)} weights are to be written, but the model has {len(holes)} of them")
    pieces, total = wire.splice(message, holes)
    return pieces if total <= wire.MESSAGE_LIMIT else None


def _serialized(model: onnx.ModelProto) -> bytes | None:
    """Give the message's bytes; None where they are more than protobuf can hold."""
    try:
        message = model.SerializeToString()
    except (EncodeError, ValueError, RuntimeError):
        return None
    return message if len(message) <= wire.MESSAGE_LIMIT else None


def _write_external(model: onnx.ModelProto, target: str, payloads: Sequence[Payload], name: str, size_threshold: int) -> None:
    """Write every large weight to one new data file."""
    data_path = _data_path(target, name)
    placed, end = _plan(model, payloads, size_threshold, 0)
    with ExitStack() as files:
        # The one entered last is put in place first: the data, then the model that refers to it.
        descriptor = files.enter_context(_replacing(target))
        if placed:
            _write_data(files.enter_context(_replacing(data_path)), placed, end)
        _write_rest(descriptor, model, target, payloads, placed, name)


def _write_keeping(model: onnx.ModelProto, target: str, payloads: Sequence[Payload], size_threshold: int) -> None:
    """Leave weights that lie in files of the model's folder where they are; append the others to the first such file."""
    folder = os.path.realpath(os.path.dirname(target) or os.curdir)
    home: tuple[SourceFile, str] | None = None
    others: list[Payload] = []
    names: dict[int, str | None] = {}
    for payload in payloads:
        source, name = payload.source, None
        if isinstance(source, Region):
            if id(source.file) not in names:
                names[id(source.file)] = _name_within(source.file, folder, target)
            name = names[id(source.file)]
        if name is None:
            others.append(payload)
            continue
        _keep(payload, name, folder)
        home = home or (source.file, name)
    if home is None:
        _write_external(model, target, payloads, os.path.basename(target) + ".data", size_threshold)
        return
    file, name = home
    data_path = os.path.join(folder, name)
    before = os.stat(data_path).st_size
    placed, end = _plan(model, others, size_threshold, before)
    with ExitStack() as files:
        descriptor = files.enter_context(_replacing(target))
        if placed:
            _write_data(files.enter_context(_appending(data_path, before)), placed, end, start=before)
        _write_rest(descriptor, model, target, others, placed, name)
    file.grown()


def _write_rest(descriptor: int, model: onnx.ModelProto, target: str, payloads: Sequence[Payload], placed: Sequence[_Placed], name: str) -> None:
    """Make the placed tensors refer to the data file, and write the model with what is left in it."""
    for weight in placed:
        for tensor in weight.tensors:
            external_data.point(tensor, name, weight.offset, weight.nbytes)
    gone = {id(t) for weight in placed for t in weight.tensors}
    rest = [p for p in payloads if id(p.tensor) not in gone]
    pieces = _embedded(model, rest)
    if pieces is None:
        what = "the model takes more than protobuf's 2 GB even with its weights beside it"
        raise ModelFileError(what, where=f"file '{target}'", fix="lower size_threshold, or set values again so that typed data becomes raw data")
    _write(descriptor, pieces, rest)


def _name_within(file: SourceFile, folder: str, target: str) -> str | None:
    """Give a file's name relative to the model's folder; None where it is not in there, or is the model itself."""
    if not file.path or not file.is_at(file.path) or file.is_at(target):
        return None
    if os.path.commonpath([folder, file.path]) != folder:
        return None
    return os.path.relpath(file.path, folder).replace(os.sep, "/")


def _keep(payload: Payload, name: str, folder: str) -> None:
    """Make a tensor refer to where its bytes are; entries that already do so stay as they are, with those that this version does not know."""
    region = payload.source
    entries = {entry.key: entry.value for entry in payload.tensor.external_data}
    same = entries.get("location") and region.file.is_at(os.path.join(folder, entries["location"]))
    if external_data.is_external(payload.tensor) and same and (entries.get("offset") or "0") == str(region.offset):
        return
    external_data.point(payload.tensor, name, region.offset, region.length)


@dataclass(slots=True)
class _Placed:
    """Bytes with a place in the data file, and the tensors that they are for; without a source the first tensor holds them."""

    offset: int
    nbytes: int
    source: Region | Buffer | None
    tensors: list[onnx.TensorProto]


def _plan(model: onnx.ModelProto, payloads: Sequence[Payload], size_threshold: int, start: int) -> tuple[list[_Placed], int]:
    """Choose places for the weights above the threshold; give them, and where the last one ends."""
    by_tensor = {id(p.tensor): p for p in payloads}
    layout = external_data.Layout(start)
    placed: dict[int, _Placed] = {}

    def place(tensor: onnx.TensorProto, source: Any, nbytes: int, key: Any) -> None:
        offset, new = layout.place(nbytes, key)
        if new:
            placed[offset] = _Placed(offset, nbytes, source, [tensor])
        else:
            placed[offset].tensors.append(tensor)

    for tensor in external_data.initializers(model):
        payload = by_tensor.pop(id(tensor), None)
        if payload is not None:
            if payload.nbytes > size_threshold:
                place(tensor, payload.source, payload.nbytes, _sharing(payload.source))
        elif tensor.HasField("raw_data") and not external_data.is_external(tensor):
            nbytes = len(tensor.raw_data)
            if nbytes > size_threshold:
                place(tensor, None, nbytes, object())
    for payload in by_tensor.values():
        # Tensors in attributes: few runtimes look for external data there, so they stay, unless they were external or are really large.
        if payload.nbytes > size_threshold and (external_data.is_external(payload.tensor) or payload.nbytes >= _LARGE_ATTRIBUTE):
            place(payload.tensor, payload.source, payload.nbytes, _sharing(payload.source))
    return list(placed.values()), layout.end


def _sharing(source: Region | Buffer) -> Any:
    """Give a key that is equal for weights that are the same bytes."""
    if isinstance(source, Region):
        return (id(source.file), source.offset, source.length)
    if isinstance(source, np.ndarray) and source.flags.c_contiguous:
        return ("memory", source.ctypes.data, source.nbytes)
    return id(source)


def _write(descriptor: int, pieces: Pieces, payloads: Sequence[Payload]) -> None:
    small = bytearray()
    for piece in pieces:
        if not isinstance(piece, wire.Hole) and len(piece) < _COPY:
            small += piece
            if len(small) < _COPY:
                continue
        if small:
            write_all(descriptor, bytes(small))
            small.clear()
        if isinstance(piece, wire.Hole):
            _write_source(descriptor, payloads[piece.which].source, payloads[piece.which].nbytes)
        elif len(piece) >= _COPY:
            write_all(descriptor, piece)
    write_all(descriptor, bytes(small))
    os.fsync(descriptor)


def _write_data(descriptor: int, placed: Sequence[_Placed], end: int, start: int = 0) -> None:
    at = start
    for weight in placed:
        write_all(descriptor, bytes(weight.offset - at))
        _write_source(descriptor, weight.tensors[0].raw_data if weight.source is None else weight.source, weight.nbytes)
        at = weight.offset + weight.nbytes
    assert at == end
    os.fsync(descriptor)


def _write_source(descriptor: int, source: Region | Buffer, nbytes: int) -> None:
    if isinstance(source, Region):
        source.copy_to(descriptor)
        return
    content = _bytes(source)
    if content.nbytes != nbytes:
        raise ModelFileError(f"a weight of {nbytes} bytes has {content.nbytes}")
    write_all(descriptor, content)


def _bytes(source: Buffer) -> memoryview:
    if isinstance(source, np.ndarray):
        # ml_dtypes arrays have no buffer of their own; as bytes they have one.
        source = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
    return memoryview(source).cast("B")


def _data_path(target: str, name: str) -> str:
    """Check the name of a data file; give its path."""
    parts = name.replace("\\", "/").split("/")
    if not name or os.path.isabs(name) or ".." in parts or "\0" in name or os.path.splitdrive(name)[0]:
        what = f"external data '{name}' does not lie in the model's folder"
        raise ModelFileError(what, where=f"file '{target}'", fix="give a file name relative to the model's folder")
    folder = os.path.dirname(target) or os.curdir
    path = os.path.join(os.path.dirname(target), name)
    if os.path.normpath(path) == os.path.normpath(target):
        raise ModelFileError("external data would overwrite the model", where=f"file '{target}'", fix="give another name")
    if path.lower().endswith(".onnx"):  # most likely another model, which would be lost
        what = f"external data '{name}' has the name of a model"
        raise ModelFileError(what, where=f"file '{target}'", fix="give a name such as weights.data")
    real = os.path.realpath(os.path.dirname(path))
    if os.path.commonpath([os.path.realpath(folder), real]) != os.path.realpath(folder):
        raise ModelFileError(f"external data '{name}' leads out of the model's folder by a link", where=f"file '{target}'", fix="give another name")
    check_target(path)
    return path


def write_bytes(content: bytes, path: str) -> None:
    """Write a file that appears whole or not at all.

    Raises:
        ModelFileError: it cannot be written.
    """
    with _replacing(path) as descriptor:
        regions.write_all(descriptor, content)
        os.fsync(descriptor)


def check_target(path: str) -> None:
    """See that a file can stand at a path, before work is done for it.

    Raises:
        ModelFileError: something else has that name, or its folder does not exist.
    """
    if not path:
        raise ModelFileError("file cannot be written: its name is empty", fix="give the path of a file")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ModelFileError(f"file cannot be written: {_reason(error)}", where=f"file '{path}'", fix="give another path") from error
    else:
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError("file cannot be written: there is a folder or device of that name", where=f"file '{path}'", fix="give another path")
    if not os.path.isdir(os.path.dirname(path) or os.curdir) and os.path.dirname(path):
        raise ModelFileError("file cannot be written: its folder does not exist", where=f"file '{path}'", fix="make the folder first")


@contextmanager
def _replacing(path: str) -> Iterator[int]:
    """Give a descriptor to write to; what was written replaces ``path`` in the end, or is removed where something went wrong."""
    folder, name = os.path.split(path)
    short = name.encode(errors="replace")[:100].decode(errors="ignore")  # names are limited in bytes
    partial = os.path.join(folder, f".{short}.{secrets.token_hex(8)}.part")
    descriptor = -1
    try:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))
        yield descriptor
        os.close(descriptor)
        descriptor = -1
        regions.pin(path)
        os.replace(partial, path)
        _sync_folder(folder)
    except OSError as error:
        raise ModelFileError(f"file cannot be written: {_reason(error)}", where=f"file '{path}'", fix="nothing was changed") from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(partial)


@contextmanager
def _appending(path: str, size: int) -> Iterator[int]:
    """Give a descriptor at the end of a file; where something goes wrong the file gets its old size again."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        what = f"file cannot be appended to: {_reason(error)}"
        raise ModelFileError(what, where=f"file '{path}'", fix="give the name of a new data file instead of 'keep'") from error
    try:
        os.lseek(descriptor, size, os.SEEK_SET)
        yield descriptor
    except BaseException as error:
        os.ftruncate(descriptor, size)
        if isinstance(error, OSError):
            raise ModelFileError(f"file cannot be appended to: {_reason(error)}", where=f"file '{path}'", fix="nothing was changed") from error
        raise
    finally:
        os.close(descriptor)


def _sync_folder(folder: str) -> None:
    """Make a rename last; file systems that cannot do so are let off."""
    with suppress(OSError):
        descriptor = os.open(folder or os.curdir, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
