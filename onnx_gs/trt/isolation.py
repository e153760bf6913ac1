"""Building in a child process: a crash of the library, or the system's killing it for memory, becomes an error here.

The child is this module run as a program: ``python -m onnx_gs.trt.isolation FOLDER``. The folder holds the request, and afterwards the answer.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import ModelFileError, OnnxGsError, TensorRTError
from onnx_gs.trt import model_source
from onnx_gs.trt.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx_gs.trt.options import BuildOptions

_MARK = "@onnx_gs "


def command(folder: Path) -> list[str]:
    """Give the command line of the child."""
    return [sys.executable, "-m", "onnx_gs.trt.isolation", str(folder)]


def build_isolated(model: Any, output: Any, options: BuildOptions, progress: Callable[[str, str | None, int, int], object] | None) -> Engine:
    """Build in a child process.

    Raises:
        TensorRTError: as ``build``, and when the child is killed or crashes.
        ModelFileError: the engine cannot be written where it shall go.
    """
    target = Path(output).absolute() if output is not None else None
    with _placing(output):  # beside the target, so that the finished engine only has to be renamed
        holder = tempfile.TemporaryDirectory(prefix=".onnx_gs_", dir=target.parent if target is not None else None)
    with holder as name:
        folder = Path(name)
        built = folder / "engine"
        with model_source.opened(model) as source:
            with _placing(output):
                given = str(source.as_file(folder).absolute())
                request = {"model": given, "engine": str(built), "options": options, "progress": progress is not None}
                (folder / "request").write_bytes(pickle.dumps(request))
            status, said, cancelled = _run(command(folder), progress)
        answer = folder / "answer"
        if not answer.exists():
            raise _died(status, said)
        result = pickle.loads(answer.read_bytes())  # noqa: S301 - written by our own child, in a folder only we can open
        if cancelled and isinstance(result, KeyboardInterrupt):
            result = TensorRTError("the build was cancelled", fix="the progress callable returned False")
        if isinstance(result, OnnxGsError):
            result.what = result.what.replace(f"'{built}'", _named(output))
        if isinstance(result, BaseException):
            raise result
        if target is None:
            return Engine(content=built.read_bytes(), report=result)
        with _placing(output):
            built.replace(target)
        return Engine(path=Path(output), report=result)


def _named(output: Any) -> str:
    return "the engine" if output is None else f"'{output}'"


@contextmanager
def _placing(output: Any) -> Iterator[None]:
    """Make an error of a failure to write where the engine shall go."""
    try:
        yield
    except OSError as wrong:
        fix = "check the folder, its permissions and the free space"
        raise ModelFileError(f"{_named(output)} cannot be written: {wrong.strerror or wrong}", fix=fix) from wrong


def _run(arguments: list[str], progress: Callable[[str, str | None, int, int], object] | None) -> tuple[int, str, bool]:
    """Run the child, pass its progress on, and give its status, what it said last, and whether whoever hears of progress cancelled it."""
    said: list[str] = []
    cancelled = False
    pipe = subprocess.PIPE  # of standard input nothing is written: that it is closed tells the child that this process is gone
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace") as child:  # noqa: S603 - our own module
        try:
            for line in child.stdout or ():
                if line.startswith(_MARK):
                    if progress is not None and progress(*json.loads(line[len(_MARK) :])) is False and not cancelled:
                        cancelled = True
                        child.send_signal(signal.SIGINT)
                else:
                    said.append(line.rstrip())
        except BaseException:
            child.kill()
            raise
    return child.returncode, "\n".join(said[-5:]), cancelled


def _died(status: int, said: str) -> TensorRTError:
    """Say how a child ended that left no answer."""
    if status == -signal.SIGKILL or status == 128 + signal.SIGKILL:
        return TensorRTError(
            "the build was killed by the system, probably for lack of memory",
            fix="lower workspace, the largest shapes of the profile, or max_threads; it takes two copies of the weights",
        )
    if status < 0:
        name = signal.Signals(-status).name if -status in {s.value for s in signal.Signals} else str(-status)
        return TensorRTError(
            f"TensorRT crashed while building (signal {name})",
            where=said or None,
            fix="run `onnx-gs check` on the model; cut it down with `onnx-gs bisect`",
        )
    return TensorRTError(f"the building process ended with status {status} and without a result", where=said or None)


def _end_with_parent(folder: Path) -> None:
    """Wait for the parent to go, in a thread of the child: a build that nobody waits for would take hours and leave its folder."""
    os.read(sys.stdin.fileno(), 1)  # not through `sys.stdin`, whose lock a waiting thread would hold when the child ends
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(folder: Path) -> int:
    """Build what the folder asks for; runs in the child."""
    from onnx_gs.trt.builder import build

    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    request = pickle.loads((folder / "request").read_bytes())  # noqa: S301 - written by our own parent

    def show(*event: Any) -> None:
        sys.stdout.write(_MARK + json.dumps(event) + "\n")
        sys.stdout.flush()

    result: Any
    try:
        engine = build(request["model"], request["engine"], options=replace(request["options"]), progress=show if request["progress"] else False)
        result = engine.report
    except KeyboardInterrupt as stopped:
        result = stopped
    except Exception as raised:  # noqa: BLE001 - every error goes to the parent, which raises it
        result = raised
    part = folder / "answer.part"
    part.write_bytes(pickle.dumps(result))
    part.rename(folder / "answer")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
