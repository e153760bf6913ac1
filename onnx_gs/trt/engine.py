"""Engines: the bytes that a build gives, on disk or in memory, with what the build said about them."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx_gs.errors import ModelFileError, TensorRTError
from onnx_gs.trt import tensorrt
from onnx_gs.trt.tensorrt import trt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.trt.builder import BuildReport


@dataclass(frozen=True, eq=False)
class Engine:
    """A built engine.

    Attributes:
        content: its bytes, or
        path: the file that holds them.
        report: what the build said; None for an engine that was loaded.

    Example:
        >>> Engine(content=b"engine").size
        6
    """

    content: bytes | None = None
    path: Path | None = None
    report: BuildReport | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Engine:
        """Name an engine on disk; it is read when it is used.

        Raises:
            ModelFileError: there is no such file.
        """
        if not Path(path).is_file():
            what = f"engine file '{path}' does not exist" if not Path(path).exists() else f"'{path}' is no file"
            raise ModelFileError(what, fix="build it first: onnx-gs build MODEL -o ENGINE")
        return cls(path=Path(path))

    def __bytes__(self) -> bytes:
        """Give the engine's bytes.

        Raises:
            ModelFileError: the file cannot be read.
        """
        if self.content is not None:
            return self.content
        if self.path is None:
            return b""
        try:
            return self.path.read_bytes()
        except OSError as wrong:
            raise ModelFileError(f"engine file '{self.path}' cannot be read: {wrong.strerror}") from wrong

    @property
    def size(self) -> int:
        """Bytes of the serialized engine: nearly all of them weights."""
        if self.content is not None:
            return len(self.content)
        return self.path.stat().st_size if self.path is not None else 0

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the engine to a file: whole, or not at all."""
        with replacing(path) as file:
            file.write(bytes(self))
        return Path(path)

    def stats(self, *, device: int = 0) -> dict[str, int]:
        """Give the device bytes that the engine takes: ``weights``, and ``scratch`` for one context. Needs a GPU that it fits.

        Raises:
            TensorRTError: no GPU here can load the engine.
        """
        from onnx_gs.trt.runner import loaded

        with loaded(self, device=device) as runtime_engine:
            return engine_stats(runtime_engine)


def engine_stats(engine: Any) -> dict[str, int]:
    """Give the device bytes of a loaded engine."""
    found: dict[str, int] = {}
    if hasattr(trt, "EngineStat"):
        found["weights"] = int(engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE))
    found["scratch"] = int(engine.device_memory_size_v2)
    return found


def check_place(path: str | os.PathLike[str]) -> None:
    """See that a file can be made at a path, before the work for it is done.

    Raises:
        ModelFileError: it is a folder or a device, or in no folder.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise ModelFileError(f"'{target}' cannot be written: it is a folder", fix="give a file")
        if target.exists() and not target.is_file():  # a device would be replaced by a file
            raise ModelFileError(f"'{target}' cannot be written: it is a device, pipe or socket", fix="give a file")
    except OSError as error:
        raise ModelFileError(f"'{target}' cannot be written: {error.strerror or error}", fix="give another path") from error
    if not target.parent.is_dir():
        raise ModelFileError(f"'{target}' cannot be written: there is no folder '{target.parent}'", fix="make the folder, or give another")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of ``path`` when the block ends well; on any error ``path`` is as it was.

    Raises:
        ModelFileError: it cannot be written.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
        temporary = None
    except OSError as wrong:
        raise ModelFileError(
            f"'{target}' cannot be written: {wrong.strerror or wrong}", fix="check the folder, its permissions and the free space"
        ) from wrong
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def refit(engine: Engine, model: Any, *, device: int = 0) -> Engine:
    """Give an engine with the weights of another version of its model; the engine must have been built with ``refit``.

    Args:
        engine: the engine; it is not changed.
        model: a graph, path, or bytes of the model with the new weights.
        device: the GPU to refit on: refitting needs one that the engine fits.

    Returns:
        A new engine, in memory.

    Raises:
        TensorRTError: the engine cannot be loaded here, is not refittable, or the model does not fit it.
    """
    from onnx_gs.trt.model_source import opened
    from onnx_gs.trt.runner import loaded

    tensorrt.require("refit an engine")
    with loaded(engine, device=device) as runtime_engine, opened(model) as source, tensorrt.listen(quiet=True) as heard:
        if not runtime_engine.refittable:
            raise TensorRTError("the engine was not built to be refitted", fix="build it with refit=True")
        refitter = trt.Refitter(runtime_engine, tensorrt.logger())
        parser = trt.OnnxParserRefitter(refitter, tensorrt.logger())
        done = parser.refit_from_file(str(source.path)) if source.path is not None else parser.refit_from_bytes(source.content or b"")
        if not done or not refitter.refit_cuda_engine():
            errors = [parser.get_error(k).desc() for k in range(parser.num_errors)] + heard.errors
            missing = refitter.get_missing_weights()
            named = f"; weights still missing: {', '.join(missing[:5])}" if missing else ""
            said = tensorrt.clean(errors[0]) if errors else "TensorRT gave no reason"
            raise TensorRTError(
                f"the engine cannot be refitted: {said}{named}", fix="the model must be the one that the engine was built from, with other weights"
            )
        return Engine(content=bytes(runtime_engine.serialize()))
