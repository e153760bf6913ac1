"""Bytes that stay in a file: open files, and ranges of them that are mapped, read or copied when they are needed."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import stat
import sys
import threading
import weakref
from collections import OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Descriptors kept open for files that are not pinned; the one longest unused is closed first.
OPEN_FILES = 64
#: Bytes moved by one system call.
CHUNK = 32 << 20
#: Weights in a smaller file are copied when their values are asked for: what a script holds does not change with a file that is written over.
COPIED_FILE = 32 << 20
#: Files of weights kept open for models of less than 32 MiB, beyond which such a model's file is read whole.
PINNED_FILES = 64
#: Files mapped at one time where each mapping holds a descriptor (Python before 3.13); further ones are read instead.
MAPPED_FILES = 256

# Without O_NONBLOCK, opening a FIFO would wait for a writer; it means nothing for the regular files that are let through.
_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOFOLLOW"):
    _FLAGS |= getattr(os, _flag, 0)
_lock = threading.RLock()
_open: OrderedDict[int, weakref.ref[SourceFile]] = OrderedDict()
_known: dict[tuple[int, int], weakref.ref[SourceFile]] = {}
_live: dict[int, weakref.ref[SourceFile]] = {}
_mapped: set[weakref.ref[mmap.mmap]] = set()

Stamp = tuple[int, int, int, int]


def _stamp(found: os.stat_result) -> Stamp:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class SourceFile:
    """A regular file that weights are read from.

    A pinned file keeps its descriptor, so that replacing the path by a rename loses nothing. The others share a bounded number of
    descriptors; one that is opened again must still be the file that it was.

    Args:
        path: the file.
        pinned: keep it open from now on.
        name: what errors call it; the path by default.

    Raises:
        ModelFileError: it is missing, unreadable, or no regular file.
    """

    __slots__ = ("__weakref__", "_fd", "_mapping", "_pinned", "_stamp", "_users", "name", "path", "size")

    def __init__(self, path: str, *, pinned: bool = False, name: str | None = None) -> None:
        """Open the file and remember which one it is."""
        self._fd = -1
        self._users = 0
        self._pinned = pinned
        self._mapping: weakref.ref[mmap.mmap] | None = None
        self.path = path
        self.name = name or path
        self._stamp: Stamp | None = None
        self.size = 0
        with self._borrowed():
            _live[id(self)] = weakref.ref(self)

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, pinned: bool = False) -> SourceFile:
        """Give the one live object for a file: all that refer to it share a descriptor and a mapping.

        Raises:
            ModelFileError: it is missing, unreadable, or no regular file.
        """
        name = os.fspath(path)
        with _lock:
            try:
                found = os.stat(name)
            except (OSError, ValueError) as error:
                raise ModelFileError(f"file cannot be opened: {_reason(error)}", where=f"file '{name}'") from error
            key = found.st_dev, found.st_ino
            reference = _known.get(key)
            known = None if reference is None else reference()
            path = os.path.realpath(name) if os.path.islink(name) else _absolute(name)  # links are not followed when it is opened
            if known is None or known._stamp != _stamp(found) or (known.path != path and os.path.realpath(known.path) != os.path.realpath(path)):
                known = cls(path, pinned=pinned, name=name)
                _known[key] = weakref.ref(known, lambda gone: _known.pop(key, None) if _known.get(key) is gone else None)
            elif pinned:
                known.pin()
            return known

    @classmethod
    def adopt(cls, descriptor: int, name: str) -> SourceFile:
        """Take over an open descriptor of a regular file that has no path."""
        new = object.__new__(cls)
        new._fd, new._users, new._pinned, new._mapping = descriptor, 0, True, None
        new.path, new.name = "", name
        found = os.fstat(descriptor)
        new._stamp, new.size = _stamp(found), found.st_size
        return new

    def pin(self) -> None:
        """Open the file and keep it open.

        Raises:
            ModelFileError: it is no longer the file that it was.
        """
        with self._borrowed():
            self._pinned = True

    def may_stay_open(self) -> bool:
        """Say whether the file is open for good already, or few enough others are."""
        return self._pinned or sum(f is not None and f._pinned for f in [r() for r in list(_live.values())]) < PINNED_FILES

    @property
    def is_copied(self) -> bool:
        """Say whether values of weights are copies of what is in the file."""
        return self.size < COPIED_FILE

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        assert self._stamp is not None
        return self._stamp[:2]

    def is_at(self, path: str, *, unchanged: bool = False) -> bool:
        """Say whether ``path`` leads to this very file now; ``unchanged`` asks for the size and time that it was opened with, too."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return False
        return _stamp(found) == self._stamp if unchanged else (found.st_dev, found.st_ino) == self.identity

    def grown(self) -> None:
        """Take note that this package appended to the file."""
        with _lock:
            found = os.stat(self.path)
            if (found.st_dev, found.st_ino) == self.identity and found.st_size >= self.size:
                self._stamp, self.size = _stamp(found), found.st_size

    @contextmanager
    def _borrowed(self) -> Iterator[int]:
        """Give the descriptor, which nobody closes meanwhile."""
        with _lock:
            if self._fd < 0:
                self._fd = self._opened()
            self._users += 1
            if not self._pinned:
                _open[id(self)] = weakref.ref(self)
                _open.move_to_end(id(self))
                _close_surplus()
        try:
            yield self._fd
        finally:
            with _lock:
                self._users -= 1

    def _opened(self) -> int:
        where = f"file '{self.name}'"
        try:
            descriptor = _open_file(self.path)
        except (OSError, ValueError) as error:
            raise ModelFileError(f"file cannot be opened: {_reason(error)}", where=where) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            kind = "a directory" if stat.S_ISDIR(found.st_mode) else "a device, pipe or socket"
            raise ModelFileError(f"is {kind}, not a regular file", where=where)
        if self._stamp is None:
            self._stamp, self.size = _stamp(found), found.st_size
        elif self._stamp != _stamp(found):
            os.close(descriptor)
            raise self._changed()
        return descriptor

    def read(self, offset: int, length: int) -> bytes:
        """Read ``length`` bytes at ``offset``; safe from several threads.

        Raises:
            ModelFileError: the file ends before, or was written over.
        """
        with self._borrowed() as descriptor:
            self._check_unchanged(descriptor, offset + length)
            try:
                found = os.pread(descriptor, length, offset)
                while len(found) < length:
                    more = os.pread(descriptor, length - len(found), offset + len(found))
                    if not more:
                        break
                    found += more
            except OSError as error:
                raise ModelFileError(f"file cannot be read: {_reason(error)}", where=f"file '{self.name}'") from error
        if len(found) != length:
            what = f"file ends at byte {offset + len(found)}, but bytes {offset} to {offset + length} are needed"
            raise ModelFileError(what, where=f"file '{self.name}'", fix="the file was cut short: load the model again, from a whole file")
        return found

    def mapping(self, end: int) -> mmap.mmap | bytes | None:
        """Map the whole file read-only, at least up to byte ``end``; None where too many files are mapped already.

        Raises:
            ModelFileError: the file ends before ``end``, was written over, or cannot be mapped.
        """
        known = self._mapping() if self._mapping is not None else None
        if known is not None and self._pinned and self._fd >= 0 and len(known) >= end:  # whose descriptor nobody closes
            self._check_unchanged(self._fd, end)
            return known
        with _lock:
            known = self._mapping() if self._mapping is not None else None
            with self._borrowed() as descriptor:
                size = self._check_unchanged(descriptor, end)
                if known is not None and len(known) >= end:
                    return known
                if size < end:
                    raise ModelFileError(f"file has {size} bytes, but byte {end} is needed", where=f"file '{self.name}'", fix="load the model again")
                known = self._map(descriptor)
            if known is not None:
                self._mapping = weakref.ref(known, _mapped.discard)
                _mapped.add(self._mapping)
            return known

    def _check_unchanged(self, descriptor: int, end: int) -> int:
        """Give the file's size now; it may be less than ``end``, which the caller reports.

        Raises:
            ModelFileError: the bytes up to ``end`` are no longer those of before.
        """
        found = os.fstat(descriptor)
        if _stamp(found) != self._stamp and found.st_size >= end:
            was_appended_to = found.st_size > self.size and not self._pinned  # as data beside a model is, which leaves the rest as it was
            if not was_appended_to:
                raise self._changed()
        return found.st_size

    def _changed(self) -> ModelFileError:
        what = "file was changed or replaced since the model was loaded"
        return ModelFileError(what, where=f"file '{self.name}'", fix="load the model again")

    def _map(self, descriptor: int) -> mmap.mmap | None:
        tracks = sys.version_info < (3, 13) or os.name == "nt"
        if tracks and len(_mapped) >= MAPPED_FILES:
            return None
        options: dict[str, Any] = {} if tracks else {"trackfd": False}
        try:
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options)
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ENOMEM}:
                return None
            raise ModelFileError(f"file cannot be mapped: {_reason(error)}", where=f"file '{self.name}'") from error

    def copy(self, offset: int, length: int, target: int) -> None:
        """Copy a range to the end of an open descriptor, in the kernel where it can.

        Raises:
            ModelFileError: the file ends before, or was written over.
            OSError: the target cannot be written.
        """
        with self._borrowed() as descriptor:
            self._check_unchanged(descriptor, offset + length)
            done = _copy_in_kernel(descriptor, offset, length, target)
        while done < length:
            step = min(4 << 20, length - done)
            write_all(target, self.read(offset + done, step))
            done += step

    def __repr__(self) -> str:
        """Name the file."""
        return f"SourceFile({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path, with what tells whether the file is still the same.

        Raises:
            ModelFileError: the path no longer leads to this file.
        """
        if not self.path or not self.is_at(self.path, unchanged=True):
            what = "weights cannot be pickled: the file that holds them was replaced, or has no name"
            raise ModelFileError(what, where=f"file '{self.name}'", fix="save the graph and load it again, or read the values before")
        assert self._stamp is not None
        return (_unpickle, (self.path, self._stamp[2], self._stamp[3], self._pinned))

    def __del__(self) -> None:
        """Close the descriptor."""
        _open.pop(id(self), None)
        _live.pop(id(self), None)
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)
            self._fd = -1


class _StandIn(SourceFile):
    """What takes a file's place and has no descriptor."""

    __slots__ = ()

    def __init__(self, name: str, size: int, *, pinned: bool) -> None:
        """Open nothing."""
        self._fd, self._users, self._pinned, self._mapping, self._stamp = -1, 0, pinned, None, None
        self.path, self.name, self.size = "", name, size

    @property
    def identity(self) -> tuple[int, int]:
        """Unlike that of any file."""
        return (-1, id(self))

    def is_at(self, path: str, *, unchanged: bool = False) -> bool:
        """Say no: it is nowhere."""
        return False


class AbsentFile(_StandIn):
    """Stands for a file that is missing or too short, in a model that is loaded to look at its structure only.

    Args:
        name: what errors call it.
        why: what reading from it raises.
    """

    __slots__ = ("why",)

    def __init__(self, name: str, why: ModelFileError) -> None:
        """Open nothing."""
        super().__init__(name, sys.maxsize, pinned=False)
        self.why = why

    def _opened(self) -> int:
        raise ModelFileError(self.why.what, where=self.why.where, fix=self.why.fix)


class MemoryFile(_StandIn):
    """The content of a small model that came from a stream, or from a file that is not kept open: weights are views of it.

    Args:
        content: the bytes.
        name: what errors call it.
    """

    __slots__ = ("content",)

    def __init__(self, content: bytes, name: str) -> None:
        """Open nothing."""
        super().__init__(name, len(content), pinned=True)
        self.content = content

    @property
    def is_copied(self) -> bool:
        """Say no: nobody writes over it."""
        return False

    def pin(self) -> None:
        """Do nothing: it cannot go away."""

    def read(self, offset: int, length: int) -> bytes:
        """Copy ``length`` bytes at ``offset``."""
        return self.content[offset : offset + length]

    def mapping(self, end: int) -> bytes:
        """Give the content."""
        return self.content

    def copy(self, offset: int, length: int, target: int) -> None:
        """Write a range to an open descriptor.

        Raises:
            OSError: the target cannot be written.
        """
        write_all(target, memoryview(self.content)[offset : offset + length])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content."""
        return (MemoryFile, (self.content, self.name))


def _absolute(path: str) -> str:
    """Complete a path; one that is complete needs no working directory, which may be gone."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _open_file(path: str) -> int:
    """Open a file to read; where too many are open, graphs that nobody holds may hold some, as they refer to themselves: they go first."""
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        if error.errno not in {errno.EMFILE, errno.ENFILE}:
            raise
    gc.collect()
    return os.open(path, _FLAGS)


def _unpickle(path: str, size: int, modified: int, pinned: bool) -> SourceFile:
    found = SourceFile.of(path, pinned=pinned)
    assert found._stamp is not None
    if found._stamp[2:] != (size, modified):
        raise ModelFileError("file was changed since the weights in it were pickled", where=f"file '{path}'", fix="load the model again")
    return found


def pin(path: str) -> None:
    """Keep open what this process still reads from a path that is about to be replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return
    stamp = _stamp(found)
    with _lock:
        for reference in list(_live.values()):
            file = reference()
            if file is None:
                continue
            if file._stamp == stamp or (file._fd >= 0 and file.identity == stamp[:2]):
                file.pin()


def _close_surplus() -> None:
    surplus = len(_open) - OPEN_FILES
    for key in list(_open)[: max(surplus, 0)]:
        reference = _open.get(key)
        file = reference() if reference is not None else None
        if file is not None and file._users:
            continue
        _open.pop(key, None)
        if file is not None and not file._pinned and file._fd >= 0:
            os.close(file._fd)
            file._fd = -1


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def write_all(target: int, data: bytes | memoryview) -> None:
    """Write every byte to a descriptor.

    Raises:
        OSError: the target is full, or closed.
    """
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(target, view[:CHUNK]) :]


def _copy_in_kernel(source: int, offset: int, length: int, target: int) -> int:
    """Copy as far as the kernel does it; give the number of bytes copied."""
    done = 0
    for copy in (getattr(os, "copy_file_range", None), _send_file if hasattr(os, "sendfile") else None):
        if copy is None:
            continue
        try:
            while done < length:
                moved = copy(source, target, min(CHUNK, length - done), offset + done)
                if not moved:
                    break
                done += moved
                _start_writing(target, moved)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM, errno.ENOTSOCK}:
                raise
        if done == length:
            break
    return done


def _start_writing(target: int, count: int) -> None:
    """Let the disk begin with what was just written, so that the sync at the end has little left to wait for."""
    if count == CHUNK and hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # a hint; pipes take none
            at = os.lseek(target, 0, os.SEEK_CUR)
            os.posix_fadvise(target, at - count, count, os.POSIX_FADV_DONTNEED)


def _send_file(source: int, target: int, count: int, offset: int) -> int:
    return os.sendfile(target, source, offset, count)


class Region:
    """A range of bytes of a file.

    Args:
        file: the file.
        offset: where the range begins.
        length: how many bytes it has.

    Raises:
        ModelFileError: the range does not lie within the file.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "w.bin"
        >>> _ = path.write_bytes(b"0123456789")
        >>> region = Region(SourceFile.of(path), 2, 3)
        >>> region.read(0, 3), bytes(region.view())
        (b'234', b'234')
    """

    __slots__ = ("file", "length", "offset")

    def __init__(self, file: SourceFile, offset: int, length: int) -> None:
        """Check the range; nothing is read."""
        if offset < 0 or length < 0 or offset + length > file.size:
            what = f"bytes {offset} to {offset + length} do not lie within the {file.size} bytes of the file"
            raise ModelFileError(what, where=f"file '{file.name}'")
        self.file = file
        self.offset = offset
        self.length = length

    def view(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Give the bytes, read-only: of a file from ``COPIED_FILE`` on a map of it, no copy and no private memory; of a smaller one a copy.

        Raises:
            ModelFileError: the file is no longer what it was.
        """
        if self.length and self.file.is_copied:
            return np.frombuffer(self.file.read(self.offset, self.length), np.uint8)
        return self.peek()

    def peek(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Give the bytes, read-only, as a map of a file of any size: for a look, as who writes over the file changes them.

        Raises:
            ModelFileError: the file is no longer what it was.
        """
        if not self.length:
            return np.empty(0, np.uint8)
        mapped = self.file.mapping(self.offset + self.length)
        if mapped is None:
            return np.frombuffer(self.file.read(self.offset, self.length), np.uint8)
        return np.frombuffer(mapped, np.uint8, self.length, self.offset)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Copy bytes of the range, counted from its start; all of them by default.

        Raises:
            ModelFileError: they are not within the range, or the file is no longer what it was.
        """
        wanted = self.length - offset if length is None else length
        if offset < 0 or wanted < 0 or offset + wanted > self.length:
            raise ModelFileError(f"bytes {offset} to {offset + wanted} do not lie within a range of {self.length}", where=f"file '{self.file.name}'")
        return self.file.read(self.offset + offset, wanted)

    def copy_to(self, target: int) -> None:
        """Write the bytes to an open descriptor, without holding them.

        Raises:
            ModelFileError: the file is no longer what it was.
            OSError: the target cannot be written.
        """
        self.file.copy(self.offset, self.length, target)

    def __repr__(self) -> str:
        """Show file, offset and length."""
        return f"Region({self.file.name!r}, {self.offset}, {self.length})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as path, offset and length."""
        return (Region, (self.file, self.offset, self.length))
