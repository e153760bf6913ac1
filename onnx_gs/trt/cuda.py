"""Device memory and streams, through the CUDA driver's own library: no CUDA package is needed beside TensorRT."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

from onnx_gs.errors import TensorRTError

_LIBRARIES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
_NO_GPU_FIX = "engines can be built here, but run only on a machine with an NVIDIA GPU and its driver"


@lru_cache(maxsize=1)
def _driver() -> Any:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        status = library.cuInit(0)
        if status != 0:
            raise TensorRTError(f"the CUDA driver cannot start: {_text(library, status)}", fix=_NO_GPU_FIX)
        return library
    raise TensorRTError("no CUDA driver is installed, so no engine can run here", fix=_NO_GPU_FIX)


def _text(library: Any, status: int) -> str:
    name, words = ctypes.c_char_p(), ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(name))
    library.cuGetErrorString(status, ctypes.byref(words))
    return f"{(name.value or b'error').decode()} ({(words.value or str(status).encode()).decode()})"


def _call(function: str, *arguments: Any) -> None:
    library = _driver()
    status = getattr(library, function)(*arguments)
    if status != 0:
        raise TensorRTError(
            f"{function} failed: {_text(library, status)}",
            fix="CUDA reports errors late: another context may have caused it; run with debug_sync=True to pin it down",
        )


def device_count() -> int:
    """Give the number of GPUs; 0 where there is no driver."""
    try:
        count = ctypes.c_int()
        _call("cuDeviceGetCount", ctypes.byref(count))
    except TensorRTError:
        return 0
    return count.value


@lru_cache(maxsize=16)
def _primary_context(device: int) -> Any:
    count = ctypes.c_int()
    _call("cuDeviceGetCount", ctypes.byref(count))
    if not 0 <= device < count.value:
        raise TensorRTError(f"there is no GPU {device}: this machine has {count.value}", fix=_NO_GPU_FIX)
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuDeviceGet", ctypes.byref(handle), device)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context


def use(device: int) -> None:
    """Make a GPU the current one of this thread.

    Raises:
        TensorRTError: there is no such GPU, or no driver.
    """
    _call("cuCtxSetCurrent", _primary_context(device))


def compute_capability(device: int) -> tuple[int, int]:
    """Give a GPU's compute capability."""
    handle, found = ctypes.c_int(), []
    _call("cuDeviceGet", ctypes.byref(handle), device)
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int()
        _call("cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
        found.append(value.value)
    return found[0], found[1]


class Buffer:
    """Device memory; freed when it is closed, or when nothing refers to it."""

    def __init__(self, size: int) -> None:
        """Allocate at least ``size`` bytes on this thread's GPU."""
        self.size = max(size, 1)
        self._pointer = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(self._pointer), ctypes.c_size_t(self.size))

    @property
    def address(self) -> int:
        """Where it is."""
        return self._pointer.value

    def close(self) -> None:
        """Free it."""
        if self._pointer.value:
            pointer, self._pointer = self._pointer, ctypes.c_uint64()
            _call("cuMemFree_v2", pointer)

    def __del__(self) -> None:
        """Free it, unless the interpreter is ending and the driver may be gone."""
        if not sys.is_finalizing():
            try:
                self.close()
            except TensorRTError:
                return


class Stream:
    """A CUDA stream."""

    def __init__(self) -> None:
        """Make a stream on this thread's GPU that does not wait for the default one."""
        self._handle = ctypes.c_void_p()
        _call("cuStreamCreate", ctypes.byref(self._handle), 1)

    @property
    def handle(self) -> int:
        """The stream, as TensorRT takes it."""
        return self._handle.value or 0

    def upload(self, target: Buffer, array: Any) -> None:
        """Copy an array to the device; it must live until the next synchronization."""
        if array.nbytes:
            _call(
                "cuMemcpyHtoDAsync_v2",
                ctypes.c_uint64(target.address),
                ctypes.c_void_p(array.ctypes.data),
                ctypes.c_size_t(array.nbytes),
                self._handle,
            )

    def download(self, array: Any, address: int) -> None:
        """Copy from the device into an array, which is filled at the next synchronization."""
        if array.nbytes:
            _call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes), self._handle)

    def synchronize(self) -> None:
        """Wait for everything on the stream.

        Raises:
            TensorRTError: something on it failed, or on another stream of this GPU before.
        """
        _call("cuStreamSynchronize", self._handle)

    def close(self) -> None:
        """Destroy the stream."""
        if self._handle.value:
            handle, self._handle = self._handle, ctypes.c_void_p()
            _call("cuStreamDestroy_v2", handle)
