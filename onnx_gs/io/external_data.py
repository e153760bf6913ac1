"""External data: where a tensor's bytes are beside the model, and how weights are laid out in such a file."""

from __future__ import annotations

import math
import os
import stat
import weakref
from typing import TYPE_CHECKING, Any

import onnx

from onnx_gs.errors import ModelFileError
from onnx_gs.io.regions import AbsentFile, Region, SourceFile
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Weights of at least this many bytes begin on a page, so that runtimes can map them.
LARGE = 64 << 10
LARGE_ALIGNMENT = 4096
SMALL_ALIGNMENT = 64

_resolved: weakref.WeakValueDictionary[tuple[str, str], SourceFile] = weakref.WeakValueDictionary()


def is_external(tensor: onnx.TensorProto) -> bool:
    """Say whether a tensor's bytes are in a file beside the model."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def locate(tensor: onnx.TensorProto, base_dir: str | None, absent: dict[str, AbsentFile] | None = None) -> Region:
    """Find the bytes of a tensor with external data; they are not read.

    Args:
        tensor: the tensor.
        base_dir: the model's folder; ``""`` is the working directory, and None a model that has no folder.
        absent: where files that are missing or too short are put, by location; reading from them raises. None raises here.

    Raises:
        ModelFileError: the file is missing or not allowed, or the bytes are not all in it.

    Spec: ``onnx.proto``, ``TensorProto.external_data``; the file must stay inside the model's folder.
    """
    where = f"tensor '{tensor.name}'"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not isinstance(location, str):  # what protobuf gives where text is no UTF-8
        raise ModelFileError(f"external data has location {location!r:.80}, which is no UTF-8 text", where=where)
    if not location:
        raise ModelFileError("external data without a location", where=where, fix="the model is damaged; export it again")
    wanted = stored_bytes(tensor)
    offset = _number(entries, "offset", where)
    length = _number(entries, "length", where)
    try:
        file = _opened(location, base_dir, absent)
        start = offset if offset is not None else 0
        if length is None:
            length = wanted
        if length != wanted:
            raise ModelFileError(f"external data has {length} bytes, but type and dims ask for {wanted}")
        if start + length > file.size:
            short = ModelFileError(f"external data '{location}' has {file.size} bytes, but bytes {start} to {start + length} are needed")
            if absent is None:
                raise short
            file = absent.setdefault(location, AbsentFile(file.name, short))
        return Region(file, start, length)
    except ModelFileError as error:
        inner = error.where
        raise ModelFileError(error.what, where=f"{where} in {inner}" if inner else where, fix=error.fix) from error


def stored_bytes(tensor: onnx.TensorProto) -> int:
    """Give the bytes that a tensor's values take in a file, from type and dims alone.

    Raises:
        ModelFileError: the type has no such form, or the dims are impossible.
    """
    where = f"tensor '{tensor.name}'"
    known = dtypes.BY_NUMBER.get(tensor.data_type)
    if known is None:
        raise ModelFileError(f"element type {tensor.data_type} is unknown", where=where, fix="a newer version of this package may know it")
    if known is dtypes.STRING:
        raise ModelFileError("strings cannot be external data", where=where)
    dims = list(tensor.dims)
    if any(d < 0 for d in dims):
        raise ModelFileError(f"dims {dims} are negative", where=where)
    count = math.prod(dims)
    if count >= 1 << 62:
        raise ModelFileError(f"dims {dims} ask for {count} elements, more than any file holds", where=where)
    return known.nbytes(count)


def _number(entries: dict[str, str], key: str, where: str) -> int | None:
    text = entries.get(key, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ModelFileError(f"external data has {key} '{text[:40]}', which is no count of bytes", where=where)
    return int(text)


def _opened(location: str, base_dir: str | None, absent: dict[str, AbsentFile] | None) -> SourceFile:
    if base_dir is None:
        raise ModelFileError(f"external data '{location}' of a model that has no folder", fix="load the model from its path")
    # A model may have 100,000 tensors in one file: what was resolved once is taken again, as long as the path leads to the same file.
    known = _resolved.get((base_dir, location))
    if known is not None and known.is_at(os.path.join(base_dir, location), unchanged=True):
        return known
    if absent is not None and location in absent:
        return absent[location]
    try:
        found = SourceFile.of(resolve(location, base_dir))
    except ModelFileError as error:
        if absent is None or not isinstance(error.__cause__, FileNotFoundError):
            raise
        return absent.setdefault(location, AbsentFile(location, error))
    _resolved[base_dir, location] = found
    return found


def resolve(location: str, base_dir: str) -> str:
    """Give the path that a location means.

    Raises:
        ModelFileError: it leads out of the folder, or to something that is no regular file.
    """
    where = f"external data '{location[:200]}'"
    fix = "external data must be a regular file inside the model's folder; copy it there, without links"
    if "\0" in location:
        raise ModelFileError("path contains a zero byte", where=where, fix=fix)
    parts = location.replace("\\", "/").split("/")
    if location.startswith(("/", "\\")) or os.path.isabs(location) or os.path.splitdrive(location)[0]:
        raise ModelFileError("path is absolute", where=where, fix=fix)
    if ".." in parts:
        raise ModelFileError("path leads out of the model's folder by '..'", where=where, fix=fix)
    folder = os.path.realpath(base_dir or os.curdir)
    path = os.path.join(folder, location)
    try:
        real = os.path.realpath(path)
        if os.path.commonpath([folder, real]) != folder:
            raise ModelFileError("a symbolic link leads out of the model's folder", where=where, fix=fix)
        found = os.stat(real)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"file cannot be opened: {reason}", where=where, fix="put the data file beside the model") from error
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError("is no regular file", where=where, fix=fix)
    return real


def point(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    """Make a tensor refer to bytes of an external file."""
    embed(tensor)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def embed(tensor: onnx.TensorProto) -> None:
    """Make a tensor hold its bytes itself; the caller sets them."""
    tensor.ClearField("external_data")
    if is_external(tensor):
        tensor.ClearField("data_location")


class Layout:
    """Places weights in one file, in the order given; weights that share their bytes share their place.

    Args:
        end: where the free space begins.
    """

    def __init__(self, end: int = 0) -> None:
        """Start behind what is there."""
        self.end = end
        self._places: dict[Any, int] = {}

    def place(self, length: int, key: Any) -> tuple[int, bool]:
        """Give the offset for a weight, and whether it is new.

        Args:
            length: its bytes.
            key: equal for weights that are known to be the same bytes.
        """
        known = self._places.get(key)
        if known is not None:
            return known, False
        step = LARGE_ALIGNMENT if length >= LARGE else SMALL_ALIGNMENT
        offset = -(-self.end // step) * step
        self._places[key] = offset
        self.end = offset + length
        return offset, True


def initializers(model: onnx.ModelProto) -> Iterable[onnx.TensorProto]:
    """Give the dense initializers of the graph and of all bodies, in the model's order."""
    pending = [model.graph]
    while pending:
        graph = pending.pop()
        yield from graph.initializer
        bodies = [b for node in graph.node for a in node.attribute for b in _bodies(a)]
        pending.extend(reversed(bodies))


def _bodies(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    if attribute.type == onnx.AttributeProto.GRAPH:
        return [attribute.g]
    return list(attribute.graphs) if attribute.type == onnx.AttributeProto.GRAPHS else []
