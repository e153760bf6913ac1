"""One parse or build: TensorRT's objects, kept alive in the order in which they point at each other."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphTypeError, TensorRTError
from onnx_gs.trt import tensorrt
from onnx_gs.trt.tensorrt import trt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx_gs.trt.model_source import ModelSource

LOGGER = logging.getLogger("onnx_gs")


class Session:
    """Builder, network, parser and configuration of one build; a context manager that lets go of them in the right order.

    TensorRT's objects point at each other without counting: a builder at its error recorder, allocator and monitor, a network at the weights
    that a parser read, all at the logger. Dropping one too early is a crash, so they are dropped here: what was made first goes last.
    """

    def __init__(self, *, gpu_allocator: Any = None, step: Callable[[str, str | None, int, int], bool] | None = None) -> None:
        """Make a builder and an empty network.

        Raises:
            TensorRTError: TensorRT cannot be started.
            GraphTypeError: the allocator is none.
        """
        tensorrt.require("build an engine")
        self.recorder = tensorrt.make_recorder()
        self.gpu_allocator = gpu_allocator
        self.monitor = tensorrt.make_monitor(step) if step is not None else None
        self.keep: list[Any] = []
        with tensorrt.listen(quiet=True) as heard:
            try:
                self.builder = trt.Builder(tensorrt.logger())
            except (TypeError, RuntimeError) as failed:  # a factory that gives nothing is a TypeError of the bindings
                raise TensorRTError(f"TensorRT cannot make a builder: {first_error(heard.errors)}") from failed
        if gpu_allocator is not None:
            if not isinstance(gpu_allocator, trt.IGpuAllocator):
                raise GraphTypeError(f"{type(gpu_allocator).__name__} is no allocator", fix="give a trt.IGpuAllocator")
            self.builder.gpu_allocator = gpu_allocator
        self.network: trt.INetworkDefinition = self.builder.create_network(0)
        self.config: trt.IBuilderConfig = self.builder.create_builder_config()
        if self.monitor is not None:
            self.config.progress_monitor = self.monitor
        self.parser: Any = None

    def __enter__(self) -> Session:
        """Give the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of everything."""
        self.close()

    def close(self) -> None:
        """Let go of everything, the builder's own objects before it and what it points at after it."""
        self.parser = self.network = self.config = None  # type: ignore[assignment]
        self.builder = None  # type: ignore[assignment]
        self.keep.clear()
        self.monitor = self.gpu_allocator = None
        self.recorder = None  # type: ignore[assignment]

    def parse(self, source: ModelSource, flags: tuple[str, ...] = ()) -> bool:
        """Read a model into the network; on False the parser holds the errors."""
        self.parser = trt.OnnxParser(self.network, tensorrt.logger())
        for name in flags:
            self.parser.set_flag(tensorrt.member("OnnxParserFlag", name, "parser flag"))
        if source.path is not None:
            parsed = self.parser.parse_from_file(str(source.path))
        else:
            self.keep.append(source.content)
            parsed = self.parser.parse(source.content)
        return bool(parsed) and self.parser.num_errors == 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Attach the error recorder for the length of a build.

        A network whose parser was made while a recorder was attached crashes when it goes (seen with TensorRT for RTX 1.7.1), so it is attached
        after parsing, and taken off before anything is let go.
        """
        self.builder.error_recorder = self.recorder
        try:
            yield
        finally:
            self.builder.error_recorder = None

    def layer_origins(self) -> dict[str, str]:
        """Give the ONNX node's name for every layer whose own name does not say it."""
        from onnx_gs.trt.layers import origins

        return origins(self.network)

    @property
    def recorded(self) -> list[str]:
        """The recorded errors' texts."""
        return [text for _, text in self.recorder.errors]  # type: ignore[attr-defined]


def first_error(texts: list[str]) -> str:
    """Give the message that says most: the first that is not about the GPU being absent, without its developers' tail."""
    cleaned = [c for c in map(tensorrt.clean, texts) if c]
    about_model = [c for c in cleaned if not tensorrt.cuda_missing([c])]
    return (about_model or cleaned or ["TensorRT gave no reason"])[0]


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C into a flag while TensorRT runs, and into ``KeyboardInterrupt`` afterwards.

    An exception must not unwind through TensorRT's own frames, so the handler only notes it; the progress monitor asks and cancels the build.
    Outside the main thread Python delivers no signals, so there the flag stays false.
    """
    caught = threading.Event()
    handled = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) not in {signal.SIG_IGN, None}
    before = signal.signal(signal.SIGINT, lambda *_: caught.set()) if handled else None
    try:
        yield caught.is_set
    finally:
        if handled:
            signal.signal(signal.SIGINT, before)
    if caught.is_set():
        raise KeyboardInterrupt
