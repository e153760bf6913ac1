"""Run an engine on a GPU, or a model in ONNX Runtime, once: inputs from an .npz file or made up, outputs to an .npz file.

What a file is told by its extension: a model's (.onnx and those that convert lists), else an engine. Inputs of a model that the .npz file does not
have are made up.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.cli import options as shared
from onnx_gs.errors import ModelFileError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="FILE", help="a model, which ONNX Runtime runs, or an engine, which TensorRT runs")
    parser.add_argument("--inputs", "--feeds", metavar="FILE.npz", help="an array for each input (default: made up; an engine needs them)")
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="where the outputs go; - is standard output")
    parser.add_argument("--seed", type=shared.seed, metavar="N", default=0, help="another seed makes up other inputs (default: 0)")
    parser.add_argument("--device", type=int, metavar="N", default=0, help="the GPU (default: 0)")
    parser.add_argument("--debug-sync", action="store_true", help="wait after every layer, so that an error is reported where it happens")


def run(options: argparse.Namespace, session: Session) -> int:
    """Run the model or engine."""
    import numpy as np

    shared.check_file(options.output, ".npz")
    started = time.perf_counter()
    outputs, by = _run(options, session)
    seconds = time.perf_counter() - started
    if options.output is not None:
        stored = io.BytesIO()
        np.savez(stored, **outputs)
        if options.output == "-":
            sys.stdout.buffer.write(stored.getbuffer())
            sys.stdout.buffer.flush()
        else:
            Path(options.output).write_bytes(stored.getbuffer())
    session.put(
        result={"by": by, "seconds": seconds, "outputs": {name: {"dtype": str(v.dtype), "shape": list(v.shape)} for name, v in outputs.items()}}
    )
    session.say(f"{by}: {seconds:.3f} s, loading included")
    session.table(
        "Outputs",
        ["name", "type", "shape", "first values"],
        [(n, v.dtype, list(v.shape), str(v.reshape(-1)[:4].tolist())) for n, v in outputs.items()],
    )
    return 0


def _run(options: argparse.Namespace, session: Session) -> tuple[dict[str, Any], str]:
    if is_model(options.model):
        from onnx_gs.cli import models
        from onnx_gs.evaluate import feeds, onnxruntime

        graph = models.read(options.model, session)
        given = shared.read_feeds(options.inputs, graph)
        with shared.inputs_made_up(graph, given):
            return feeds.first_that_run(graph, onnxruntime.session(graph).run, options.seed, given=given)[1], "ONNX Runtime"
    if not Path(options.model).is_file():
        raise ModelFileError("there is no such file", where=f"file '{options.model}'", fix="give the path of a model or an engine")
    if not options.inputs:
        what = f"'{options.model}' is taken for an engine, as it has no extension of a model; an engine needs inputs"
        raise ModelFileError(what, fix="give --inputs FILE.npz, or a model such as model.onnx")
    arrays = read_arrays(options.inputs)
    from onnx_gs.trt.runner import Runner

    with Runner(options.model, device=options.device, debug_sync=options.debug_sync) as runner:
        return runner(arrays), "TensorRT"


def is_model(path: str) -> bool:
    """Say whether a file is taken as an ONNX model, by its name."""
    from onnx_gs.io import formats

    return path == "-" or formats.of(path) is not None


def read_arrays(path: str) -> dict[str, Any]:
    """Read an .npz file.

    Raises:
        ModelFileError: it is none.
    """
    import zipfile

    import numpy as np

    try:
        if not zipfile.is_zipfile(path):  # numpy reads other files too, and says of the rest that they are pickled
            raise ValueError("there is no such file" if not Path(path).exists() else "it is another kind of file")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as wrong:
        why = str(wrong).partition(". ")[0].partition(" when allow_pickle")[0]
        raise ModelFileError(f"'{path}' is no .npz file of arrays: {why}", fix="write it with numpy.savez(file, input_name=array, …)") from wrong
