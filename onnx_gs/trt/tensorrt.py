"""The door to TensorRT: which library is installed, and the objects of ours that it calls back.

Nothing else in the package imports ``tensorrt`` or ``tensorrt_rtx``. Feature modules take the module object from here, as ``trt``, which
is loaded on first use. What TensorRT calls from its own threads (logger, error recorder, progress monitor, stream writer) is made here.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import sys
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import MissingExtraError, OnnxGsError, TensorRTError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    import tensorrt_rtx as trt

__all__ = [
    "Library",
    "Messages",
    "broken",
    "clean",
    "cuda_missing",
    "described",
    "installed",
    "listen",
    "logger",
    "make_monitor",
    "make_output_allocator",
    "make_recorder",
    "make_writer",
    "member",
    "require",
    "trt",
]

LOGGER = logging.getLogger("onnx_gs.tensorrt")

#: The packages, in the order they are tried, each with the extra of ours that brings it; ``ONNX_GS_TENSORRT`` names one to use instead.
EXTRAS = {"tensorrt_rtx": "tensorrt-rtx", "tensorrt": "tensorrt"}
PACKAGES = tuple(EXTRAS)


@dataclass(frozen=True)
class Library:
    """An installed TensorRT.

    Attributes:
        package: ``"tensorrt_rtx"`` or ``"tensorrt"``.
        version: its version, as numbers.
        text: its version, as the package says it.
    """

    package: str
    version: tuple[int, ...]
    text: str

    @property
    def is_rtx(self) -> bool:
        """Say whether it is TensorRT for RTX, which builds ahead of time and without a GPU."""
        return self.package == "tensorrt_rtx"

    def __str__(self) -> str:
        """Show package and version."""
        return f"{self.package} {self.text}"


@dataclass
class _Found:
    """What came of looking for the library.

    Attributes:
        module: its module, and the package's name; None where there is none that can be used.
        broken: what is wrong with a package that is there, by name.
    """

    module: tuple[Any, str] | None = None
    broken: dict[str, str] = field(default_factory=dict)


def _tried() -> tuple[str, ...]:
    """Give the packages to look for."""
    wanted = os.environ.get("ONNX_GS_TENSORRT")
    if wanted is None:
        return PACKAGES
    if wanted not in PACKAGES:
        raise OnnxGsError(f"ONNX_GS_TENSORRT is '{wanted}', which is no TensorRT package", fix=f"set it to one of {', '.join(PACKAGES)}, or unset it")
    return (wanted,)


@lru_cache(maxsize=1)
def _search() -> _Found:
    found = _Found()
    for name in _tried():
        try:
            module = importlib.import_module(name)
        except (ImportError, OSError) as wrong:  # OSError: the wheel is there, but a shared library of its is not
            LOGGER.debug("package %s cannot be used: %s", name, wrong)
            if getattr(wrong, "name", None) != name:
                found.broken[name] = str(wrong)
            continue
        if hasattr(module, "Builder"):
            found.module = module, name
            break
        found.broken[name] = "it holds no builder"
    return found


def _load() -> tuple[Any, str] | None:
    return _search().module


def broken() -> str | None:
    """Say which package is installed but cannot be used, and why; None where none is like that, or another can be used."""
    found = _search()
    if found.module is not None or not found.broken:
        return None
    return "; ".join(f"package '{name}' is installed, but cannot be used: {why}" for name, why in found.broken.items())


def _missing(purpose: str) -> OnnxGsError:
    """Say that there is no library, and how to get one."""
    wrong = broken()
    if wrong is not None:
        return TensorRTError(wrong, fix="install it anew, with the libraries that it names")
    first, *others = ((name, EXTRAS[name]) for name in _tried())
    return MissingExtraError(*first, purpose, *others)


def installed() -> Library | None:
    """Give the TensorRT that will be used, or None where there is none.

    Example:
        >>> found = installed()
        >>> found is None or found.package in ("tensorrt", "tensorrt_rtx")
        True
    """
    found = _load()
    if found is None:
        return None
    module, name = found
    return _library(name, str(module.__version__))


def described() -> Library | None:
    """Give the installed TensorRT by the folder of its package's metadata, so that nothing is loaded; as ``installed`` where that is not clear.

    Example:
        >>> described() == installed()
        True
    """
    if _search.cache_info().currsize or not sys.modules.keys().isdisjoint(PACKAGES):
        return installed()
    for name in _tried():
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        found = list(Path(spec.origin).parent.parent.glob(f"{name}-*.dist-info"))
        return _library(name, found[0].stem.partition("-")[2]) if len(found) == 1 else installed()
    return None


def _library(name: str, version: str) -> Library:
    return Library(name, tuple(int(part) for part in re.findall(r"\d+", version)), version)


def require(purpose: str) -> Library:
    """Give the installed TensorRT.

    Args:
        purpose: what it is needed for, after "to": part of the error.

    Raises:
        MissingExtraError: none is installed.
        TensorRTError: one is installed, but cannot be used.
    """
    found = installed()
    if found is None:
        raise _missing(purpose)
    return found


class _Door:
    """The library's module, loaded when a name of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions, such as `__wrapped__`, are none about the library
            raise AttributeError(name)
        found = _load()
        if found is None:
            raise _missing("build or describe an engine")
        try:
            return getattr(found[0], name)
        except AttributeError:
            raise TensorRTError(f"{installed()} has no '{name}'", fix="use a version of TensorRT that has it") from None


if not TYPE_CHECKING:
    trt = _Door()


def member(enum: str, name: str, what: str) -> Any:
    """Give a member of one of TensorRT's enums by name, checked against the installed version.

    Args:
        enum: the enum, such as ``"BuilderFlag"``.
        name: the member, in any case, ``-`` or ``_`` between words.
        what: what it is to the user: part of the error.

    Raises:
        TensorRTError: the installed version has no such member.
    """
    members = getattr(getattr(trt, enum), "__members__", {})
    found = members.get(name.upper().replace("-", "_"))
    if found is None:
        raise TensorRTError(f"{what} '{name}' is unknown to {installed()}", fix=f"one of {', '.join(sorted(members))}")
    return found


# -- messages ---------------------------------------------------------------------------------------

_SOURCE_LINE = re.compile(r"\s*\bIn [\w:~<>]+ at /?\S+:\d+")
_CUDA_TAIL = re.compile(r"\s*(\[[\w.]+::catchCudaError::\d+\]|\bcatchCudaError\b).*$", re.DOTALL)
_METHOD = re.compile(r"^I\w+::\w+: ")


def clean(text: str) -> str:
    """Cut what only TensorRT's developers can use: source lines, and the CUDA tail that a machine without a GPU adds to each error.

    Example:
        >>> clean("IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (NODE: bad. In check at /_src/a.cpp:7)")
        'Error Code 4: API Usage Error (NODE: bad.)'
    """
    text = _CUDA_TAIL.sub("", text)
    text = _SOURCE_LINE.sub("", _METHOD.sub("", text))
    return re.sub(r"\s+", " ", text).strip()


_NO_CUDA = re.compile(
    r"cudaError(InsufficientDriver|NoDevice)|CUDA driver|no CUDA-capable|CUDA initialization|cuInit|error code: 35|Cuda Runtime \(|CUDA_SUCCESS"
)


def cuda_missing(texts: list[str]) -> bool:
    """Say whether messages mean that the CUDA driver, or a GPU, is missing."""
    return any(_NO_CUDA.search(text) for text in texts)


@contextmanager
def deprecations_ignored() -> Iterator[None]:
    """Keep the bindings' deprecation warnings of calls that we make knowingly from our callers, who could do nothing about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@dataclass
class Messages:
    """What one call into TensorRT said.

    Attributes:
        quiet: whether errors stay out of ``logging``.
        lines: (severity name, text), in order.
        thread: the calling thread; messages of TensorRT's own threads go to every listener, as nothing says whose they are.
    """

    quiet: bool = False
    thread: int = field(default_factory=threading.get_ident)
    lines: list[tuple[str, str]] = field(default_factory=list)

    def of(self, *severities: str) -> list[str]:
        """Give the texts of some severities."""
        return [text for severity, text in self.lines if severity in severities]

    @property
    def errors(self) -> list[str]:
        """The texts of errors."""
        return self.of("INTERNAL_ERROR", "ERROR")


#: Severity → level of ``logging``. TensorRT's INFO is a builder's chatter, so it is DEBUG here, and its VERBOSE lower still.
_LEVELS = {"INTERNAL_ERROR": logging.CRITICAL, "ERROR": logging.ERROR, "WARNING": logging.WARNING, "INFO": logging.DEBUG, "VERBOSE": 5}
_listeners: list[Messages] = []
_listeners_lock = threading.Lock()


@contextmanager
def listen(*, quiet: bool = False) -> Iterator[Messages]:
    """Collect what TensorRT says while the block runs on this thread.

    Args:
        quiet: collect errors without passing them to ``logging``: they become an exception or a finding.
    """
    heard = Messages(quiet)
    with _listeners_lock:
        _listeners.append(heard)
    try:
        yield heard
    finally:
        with _listeners_lock:
            _listeners[:] = [other for other in _listeners if other is not heard]


def _hear(severity: str, text: str) -> None:
    """Take one message, on whichever thread TensorRT gives it."""
    here = threading.get_ident()
    with _listeners_lock:
        mine = [heard for heard in _listeners if heard.thread == here]
        heard_by = mine[-1:] or list(_listeners)
    for heard in heard_by:
        heard.lines.append((severity, text))
    quiet = bool(heard_by) and all(heard.quiet for heard in heard_by)
    if quiet and severity in {"ERROR", "INTERNAL_ERROR"}:
        LOGGER.debug("%s", clean(text))
        return
    level = _LEVELS.get(severity, logging.INFO)
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", clean(text) if level >= logging.WARNING else text)


@lru_cache(maxsize=1)
def logger() -> trt.ILogger:
    """Give the one logger of this process: TensorRT keeps to the first that it sees, so there is no second.

    It may be called from any thread. Messages go to ``logging`` under ``onnx_gs.tensorrt`` and to whoever listens.
    """

    class _Logger(trt.ILogger):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
            _hear(severity.name, msg)

    return _Logger()


# -- what TensorRT calls back ------------------------------------------------------------------------

#: Errors kept by one recorder: a builder that fails in a loop must not fill memory.
_MAX_RECORDED = 256


def make_recorder() -> trt.IErrorRecorder:
    """Make an error recorder; whoever attaches it keeps it alive longer than the object it is attached to."""
    return _recorder_type()()  # type: ignore[no-any-return]


# Each type is made once: the bindings remember every type that they see, so that one for each build would never be freed.


@lru_cache(maxsize=1)
def _recorder_type() -> Any:

    class _Recorder(trt.IErrorRecorder):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            trt.IErrorRecorder.__init__(self)
            self.errors: list[tuple[Any, str]] = []
            self.overflowed = False
            self.lock = threading.Lock()

        def num_errors(self) -> int:
            return len(self.errors)

        def get_error_code(self, index: int) -> Any:
            return self.errors[index][0]

        def get_error_desc(self, index: int) -> str:
            return self.errors[index][1]

        def has_overflowed(self) -> bool:
            return self.overflowed

        def clear(self) -> None:
            with self.lock:
                self.errors.clear()
                self.overflowed = False

        def report_error(self, code: Any, desc: str) -> bool:
            with self.lock:
                if len(self.errors) < _MAX_RECORDED:
                    self.errors.append((code, desc))
                else:
                    self.overflowed = True
            return False

    return _Recorder


def make_monitor(step: Callable[[str, str | None, int, int], bool]) -> trt.IProgressMonitor:
    """Make a progress monitor.

    Args:
        step: called with phase, parent phase, step and number of steps; False cancels the build. What it raises is kept and cancels too.
    """
    return _monitor_type()(step)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _monitor_type() -> Any:

    class _Monitor(trt.IProgressMonitor):  # type: ignore[misc,unused-ignore]
        def __init__(self, step: Callable[[str, str | None, int, int], bool]) -> None:
            trt.IProgressMonitor.__init__(self)
            self.step = step
            self.phases: dict[str, tuple[str | None, int]] = {}
            self.raised: BaseException | None = None
            self.lock = threading.Lock()

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            with self.lock:
                self.phases[phase_name] = (parent_phase, num_steps)
            self._call(phase_name, parent_phase, 0, num_steps)

        def phase_finish(self, phase_name: str) -> None:
            with self.lock:
                parent, steps = self.phases.pop(phase_name, (None, 0))
            self._call(phase_name, parent, steps, steps)

        def step_complete(self, phase_name: str, step_done: int) -> bool:
            with self.lock:
                parent, steps = self.phases.get(phase_name, (None, 0))
            return self._call(phase_name, parent, step_done + 1, steps)

        def _call(self, phase: str, parent: str | None, done: int, steps: int) -> bool:
            if self.raised is not None:
                return False
            try:
                return self.step(phase, parent, done, steps)
            except BaseException as raised:  # noqa: BLE001 - an exception must not unwind through TensorRT; it is raised when the build returns
                self.raised = raised
                return False

    return _Monitor


def make_writer(file: BinaryIO) -> trt.IStreamWriter:
    """Make a stream writer into an open file; what writing raises is kept, and TensorRT is told that nothing was written."""
    return _writer_type()(file)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _writer_type() -> Any:

    class _Writer(trt.IStreamWriter):  # type: ignore[misc,unused-ignore]
        def __init__(self, file: BinaryIO) -> None:
            trt.IStreamWriter.__init__(self)
            self.file = file
            self.raised: OSError | None = None

        def write(self, data: Any) -> int:
            try:
                self.file.write(data)
            except OSError as raised:
                self.raised = raised
                return 0
            return len(memoryview(data).cast("B")) if not isinstance(data, bytes) else len(data)

    return _Writer


def make_output_allocator(allocate: Callable[[int], int]) -> trt.IOutputAllocator:
    """Make an allocator for an output whose size is known only after the run.

    Args:
        allocate: gives the address of a buffer of at least that many bytes.

    Returns:
        The allocator; its ``shape`` is the output's shape once the run is over.
    """
    return _allocator_type()(allocate)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _allocator_type() -> Any:

    class _Allocator(trt.IOutputAllocator):  # type: ignore[misc,unused-ignore]
        def __init__(self, allocate: Callable[[int], int]) -> None:
            trt.IOutputAllocator.__init__(self)
            self.allocate = allocate
            self.shape: tuple[int, ...] = ()

        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            return self.allocate(size)

        def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            return self.allocate(size)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shape = tuple(shape)

    return _Allocator
