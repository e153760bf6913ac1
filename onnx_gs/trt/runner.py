"""Running engines: load, bind, run on a stream with dynamic shapes, one execution context a thread."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import GraphTypeError, GraphValueError, TensorRTError
from onnx_gs.ir import dtypes
from onnx_gs.trt import cuda, tensorrt
from onnx_gs.trt.engine import Engine, engine_stats
from onnx_gs.trt.session import first_error
from onnx_gs.trt.tensorrt import trt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Array = np.ndarray[Any, Any]

#: TensorRT's element types that arrays come and go in.
_NUMPY = {
    "FLOAT": "FLOAT", "HALF": "FLOAT16", "BF16": "BFLOAT16", "INT8": "INT8", "INT32": "INT32", "INT64": "INT64", "BOOL": "BOOL", "UINT8": "UINT8",
    "FP8": "FLOAT8E4M3FN", "INT4": "INT4", "FP4": "FLOAT4E2M1",
}  # fmt: skip


def _engine_of(engine: Engine | bytes | str | os.PathLike[str]) -> Engine:
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, (bytes, bytearray, memoryview)):
        return Engine(content=bytes(engine))
    if not isinstance(engine, (str, os.PathLike)):
        raise GraphTypeError(f"a {type(engine).__name__} is no engine", fix="give an Engine, its bytes or its file; build() makes one of a model")
    return Engine.load(engine)


class _Loaded:
    """Runtime and engine, with the recorder that both inherit; let go of in the right order."""

    def __init__(self, engine: Engine, device: int, gpu_allocator: Any = None) -> None:
        library = tensorrt.require("run an engine")
        cuda.use(device)
        self.recorder = tensorrt.make_recorder()
        self.gpu_allocator = gpu_allocator
        with tensorrt.listen(quiet=True) as heard:
            self.runtime: Any = trt.Runtime(tensorrt.logger())
            self.runtime.error_recorder = self.recorder
            if gpu_allocator is not None:
                self.runtime.gpu_allocator = gpu_allocator
            self.engine: Any = self.runtime.deserialize_cuda_engine(bytes(engine))
        if self.engine is None:
            said = [text for _, text in self.recorder.errors] + heard.errors  # type: ignore[attr-defined]
            self.close()
            raise _unloadable(said, device, str(library))

    def close(self) -> None:
        self.engine = None
        if self.runtime is not None:
            self.runtime.error_recorder = None
        self.runtime = None


def _unloadable(said: list[str], device: int, library: str) -> TensorRTError:
    major, minor = cuda.compute_capability(device)
    return TensorRTError(
        f"the engine cannot be loaded on GPU {device} (compute capability {major}.{minor}) by {library}: {first_error(said)}",
        fix="build it with the same version of TensorRT, for this GPU (compute_capabilities, hardware_compatibility)",
    )


@contextmanager
def loaded(engine: Engine, *, device: int = 0) -> Iterator[Any]:
    """Load an engine for the length of a block.

    Raises:
        TensorRTError: there is no GPU or driver, or the engine does not fit it.
    """
    held = _Loaded(engine, device)
    try:
        yield held.engine
    finally:
        held.close()


class Scratch:
    """One scratch buffer on the device, as large as the largest need, lent to one context at a time.

    Contexts that share it run one after the other; those of several runners may share one.
    """

    def __init__(self) -> None:
        """Start without memory."""
        self._buffer: cuda.Buffer | None = None
        self._lock = threading.Lock()
        self.lent = 0

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._buffer.size if self._buffer is not None else 0

    @contextmanager
    def lend(self, size: int) -> Iterator[cuda.Buffer]:
        """Give the buffer to the one that runs, until the block ends: the work must be over by then."""
        with self._lock:
            if self._buffer is None or self._buffer.size < size:
                if self._buffer is not None:
                    self._buffer.close()
                self._buffer = cuda.Buffer(size)
            self.lent += 1
            yield self._buffer


class Runner:
    """Runs an engine: arrays in, arrays out. Each thread that calls it gets an execution context of its own.

    Args:
        engine: an ``Engine``, its bytes, or its file.
        scratch: ``"own"``: each context has scratch memory; ``"shared"``: one buffer is lent to the context that runs; or a ``Scratch`` to share
            with other runners.
        device: the GPU.
        debug_sync: wait after every layer, so that an error is reported where it happens.
        gpu_allocator: a ``trt.IGpuAllocator`` for the runtime, kept alive as long as it is needed.

    Raises:
        TensorRTError: there is no GPU or driver, or the engine does not fit it.

    Example:
        >>> import numpy as np, onnx_gs as gs  # doctest: +SKIP
        >>> with gs.trt.Runner("model.engine") as run:  # doctest: +SKIP
        ...     run({"x": np.ones((4, 3), np.float32)})["y"]
    """

    def __init__(
        self,
        engine: Engine | bytes | str | os.PathLike[str],
        *,
        scratch: str | Scratch = "own",
        device: int = 0,
        debug_sync: bool = False,
        gpu_allocator: Any = None,
    ) -> None:
        """Load the engine."""
        if not isinstance(scratch, Scratch) and scratch not in ("own", "shared"):
            raise GraphValueError(f"scratch is '{scratch}'", fix="it is 'own', 'shared', or a Scratch")
        self.scratch = scratch if isinstance(scratch, Scratch) else Scratch() if scratch == "shared" else None
        self.device = device
        self.debug_sync = debug_sync
        self._held = _Loaded(_engine_of(engine), device, gpu_allocator)
        self.engine = self._held.engine
        self._local = threading.local()
        self._contexts: list[Context] = []
        self._lock = threading.Lock()
        names = [self.engine.get_tensor_name(k) for k in range(self.engine.num_io_tensors)]
        self.inputs = [n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.OUTPUT]

    def __enter__(self) -> Runner:
        """Give the runner."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of everything."""
        self.close()

    def close(self) -> None:
        """Let go of contexts, engine and runtime, in this order."""
        cuda.use(self.device)
        for context in self._contexts:
            context._close()
        self._contexts.clear()
        self.engine = None
        self._held.close()

    def stats(self) -> dict[str, int]:
        """Give the device bytes of the engine: ``weights``, and ``scratch`` for one context."""
        return engine_stats(self.engine)

    def context(self) -> Context:
        """Give this thread's execution context, made on first use."""
        found: Context | None = getattr(self._local, "context", None)
        if found is None:
            found = Context(self)
            self._local.context = found
            with self._lock:
                self._contexts.append(found)
        return found

    def __call__(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once.

        Args:
            feeds: an array for every input.

        Returns:
            An array for every output.

        Raises:
            GraphValueError: an input is missing, unknown, of another type, or of a shape that no profile allows.
            TensorRTError: the run failed.
        """
        return self.context().run(feeds)


class Context:
    """An execution context with stream and buffers; belongs to the thread that made it."""

    def __init__(self, runner: Runner) -> None:
        """Make a context on this thread.

        Raises:
            TensorRTError: TensorRT makes none, for instance for lack of memory.
        """
        cuda.use(runner.device)
        self.runner = runner
        self.thread = threading.get_ident()
        self.stream = cuda.Stream()
        self.buffers: dict[str, cuda.Buffer] = {}
        self.recorder = tensorrt.make_recorder()
        self.profile: int | None = None
        strategies = trt.ExecutionContextAllocationStrategy
        with tensorrt.listen(quiet=True) as heard:
            self.context: Any = runner.engine.create_execution_context(strategies.USER_MANAGED if runner.scratch is not None else strategies.STATIC)
        if self.context is None:
            raise TensorRTError(
                f"TensorRT makes no execution context: {first_error(heard.errors)}",
                fix="free device memory, or share scratch memory: scratch='shared'",
            )
        self.context.error_recorder = self.recorder
        if runner.debug_sync:
            self.context.debug_sync = True

    def _close(self) -> None:
        self.context = None
        for buffer in self.buffers.values():
            buffer.close()
        self.buffers.clear()
        self.stream.close()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once; see ``Runner.__call__``.

        Raises:
            TensorRTError: another thread than the one that made the context calls it.
        """
        if threading.get_ident() != self.thread:
            raise TensorRTError(
                "an execution context is used by another thread than the one that made it",
                fix="call the Runner: it gives each thread a context of its own",
            )
        cuda.use(self.runner.device)
        self.recorder.errors.clear()  # type: ignore[attr-defined]
        arrays = self._checked(feeds)
        self._choose_profile(arrays)
        keep = [self._bind_input(name, array) for name, array in arrays.items()]
        missing = self.context.infer_shapes()
        if missing:
            raise self._failed(f"shapes cannot be inferred; still unknown: {', '.join(missing)}")
        found = {name: self._bind_output(name) for name in self.runner.outputs}
        self._execute()
        del keep
        return {name: fetch() for name, fetch in found.items()}

    def _checked(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        inputs = self.runner.inputs
        for name in feeds:
            if name not in inputs:
                raise GraphValueError(f"'{name}' is no input of the engine", fix=f"the inputs are {', '.join(inputs)}")
        arrays = {}
        for name in inputs:
            if name not in feeds:
                raise GraphValueError(f"input '{name}' is missing", fix=f"feed all of {', '.join(inputs)}")
            wanted = numpy_type(self.runner.engine.get_tensor_dtype(name))
            array = np.asarray(feeds[name])
            if array.dtype != wanted:
                if not (array.dtype == np.float64 and wanted == np.float32):
                    raise GraphValueError(f"input '{name}' is {array.dtype}, but the engine takes {wanted}", fix=f"pass array.astype('{wanted}')")
                array = array.astype(wanted)  # a double binding of ONNX, which TensorRT makes float32
            arrays[name] = np.ascontiguousarray(array)
            if array.ndim == 0:
                arrays[name] = arrays[name].reshape(())
        return arrays

    def _choose_profile(self, arrays: dict[str, Array]) -> None:
        """Take the first profile that all shapes fit."""
        engine = self.runner.engine
        refused = ""
        for profile in range(engine.num_optimization_profiles):
            refused = next((why for name, array in arrays.items() if (why := self._misfit(name, array, profile))), "")
            if not refused:
                if profile != self.profile:
                    self.context.set_optimization_profile_async(profile, self.stream.handle)
                    self.profile = profile
                return
        raise GraphValueError(refused or "the engine has no optimization profile", fix="build with a profile that covers these shapes")

    def _misfit(self, name: str, array: Array, profile: int) -> str:
        engine = self.runner.engine
        declared = tuple(engine.get_tensor_shape(name))
        if len(declared) != array.ndim:
            return f"input '{name}' has rank {array.ndim}, but the engine takes rank {len(declared)}"
        if all(d >= 0 for d in declared):
            low = high = declared
        else:
            low, _, high = (tuple(s) for s in engine.get_tensor_profile_shape(name, profile))
        if all(a <= d <= b for a, d, b in zip(low, array.shape, high)):
            return ""
        return f"input '{name}' has shape {list(array.shape)}, but profile {profile} allows {list(low)} to {list(high)}"

    def _bind_input(self, name: str, array: Array) -> Array:
        context = self.context
        if not context.set_input_shape(name, array.shape):
            raise self._failed(f"shape {list(array.shape)} of input '{name}' is refused")
        if self.runner.engine.get_tensor_location(name) == trt.TensorLocation.HOST:
            context.set_tensor_address(name, array.ctypes.data)
            return array
        buffer = self._buffer(name, array.nbytes)
        self.stream.upload(buffer, array)
        context.set_tensor_address(name, buffer.address)
        return array

    def _bind_output(self, name: str) -> Any:
        """Bind one output, and give what fetches it after the run."""
        engine, context = self.runner.engine, self.context
        dtype = numpy_type(engine.get_tensor_dtype(name))
        shape = tuple(context.get_tensor_shape(name))
        if any(d < 0 for d in shape):  # known only after the run
            allocator = tensorrt.make_output_allocator(lambda size: self._buffer(name, size).address)
            context.set_output_allocator(name, allocator)
            return lambda: self._fetch_sized(name, dtype, allocator)
        array = np.empty(shape, dtype)
        if engine.get_tensor_location(name) == trt.TensorLocation.HOST:
            context.set_tensor_address(name, array.ctypes.data)
            return lambda: array
        context.set_tensor_address(name, self._buffer(name, array.nbytes).address)
        return lambda: self._fetched(array, self.buffers[name].address)

    def _fetch_sized(self, name: str, dtype: np.dtype[Any], allocator: Any) -> Array:
        return self._fetched(np.empty(allocator.shape, dtype), self.buffers[name].address)

    def _fetched(self, array: Array, address: int) -> Array:
        self.stream.download(array, address)
        self.stream.synchronize()
        return array

    def _buffer(self, name: str, size: int) -> cuda.Buffer:
        held = self.buffers.get(name)
        if held is None or held.size < size:
            if held is not None:
                held.close()
            held = self.buffers[name] = cuda.Buffer(size)
        return held

    def _execute(self) -> None:
        if self.runner.scratch is None:
            self._enqueue()
            return
        size = int(self.context.update_device_memory_size_for_shapes())
        with self.runner.scratch.lend(size) as buffer:
            self.context.set_device_memory(buffer.address, buffer.size)
            self._enqueue()

    def _enqueue(self) -> None:
        with tensorrt.listen(quiet=True) as heard:
            done = self.context.execute_async_v3(self.stream.handle)
        if not done:
            raise self._failed("the run failed", heard.errors)
        self.stream.synchronize()
        if self.recorder.errors:  # type: ignore[attr-defined]
            raise self._failed("the run failed")

    def _failed(self, what: str, heard: Sequence[str] = ()) -> TensorRTError:
        said = [text for _, text in self.recorder.errors] + list(heard)  # type: ignore[attr-defined]
        return TensorRTError(
            f"{what}: {first_error(said)}" if said else what,
            fix="CUDA reports errors late: another context may have caused it; run with debug_sync=True to pin it down",
        )


def numpy_type(kind: Any) -> np.dtype[Any]:
    """Give the array type of one of TensorRT's element types.

    Raises:
        TensorRTError: arrays have none like it.
    """
    name = _NUMPY.get(kind.name)
    if name is None:
        raise TensorRTError(f"arrays have no type for TensorRT's {kind.name}")
    return dtypes.BY_NAME[name].numpy
