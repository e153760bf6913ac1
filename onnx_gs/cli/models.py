"""Models in and out of the command line, standard input and output included."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import ModelFileError, OnnxGsError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph


def read(path: str, session: Session) -> Graph:
    """Load a model; ``-`` is standard input.

    Raises:
        ModelFileError: there is no such file, or it is no model.
    """
    from onnx_gs import load

    with session.progress("reading"):
        if path == "-":
            return load(str(_spool()))
        if not Path(path).exists():
            raise ModelFileError(f"there is no file '{path}'")
        return load(path)


def _spool() -> Path:
    """Keep standard input in a file until the program ends, since weights are read from it when they are needed."""
    folder = Path(tempfile.mkdtemp(prefix="onnx-gs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin.onnx"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def write(graph: Graph, options: argparse.Namespace, session: Session) -> None:
    """Save a model where ``--output`` says; ``-`` is standard output.

    Raises:
        OnnxGsError: standard output cannot take it, since its weights need a second file.
    """
    from onnx_gs import save

    external: Any = options.external_data
    with session.progress("writing"):
        if options.output != "-":
            save(graph, options.output, **({} if external is None else {"external_data": external}))
            return
        if external is not None:
            raise OnnxGsError("external data cannot go to standard output", fix="give a path to -o")
        with tempfile.TemporaryDirectory(prefix="onnx-gs-") as folder:
            path = Path(folder) / "stdout.onnx"
            save(graph, str(path))
            if len(list(Path(folder).iterdir())) > 1:
                raise OnnxGsError("the model is over 2 GB and cannot go to standard output in one piece", fix="give a path to -o")
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def node_count(graph: Graph) -> int:
    """Count nodes, those in bodies and functions included, ``Constant`` nodes apart."""
    from onnx_gs.ir import walk

    return sum(node.op != "Constant" for _, node in walk.nodes(graph, functions=True))
