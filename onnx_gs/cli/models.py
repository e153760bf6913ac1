"""Models in and out of the command line, standard input and output included."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import argparse

    from onnx_gs import ir
    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph
    from onnx_gs.io.regions import AbsentFile


def read(path: str, session: Session, absent: dict[str, AbsentFile] | None = None) -> Graph:
    """Load a model; ``-`` is standard input.

    Args:
        path: of the model.
        session: where to tell it.
        absent: where data files that are missing are put instead of raising, for a command that only looks at the structure.

    Raises:
        ModelFileError: there is no such file, or it is no model.
    """
    from onnx_gs.errors import ModelFileError
    from onnx_gs.graph import Function, Graph
    from onnx_gs.io import files, formats

    with session.progress("reading"):
        if path != "-":
            return cast("Graph", formats.load(path, graph_type=Graph, function_type=Function, absent=absent))
        try:
            return cast("Graph", files.load(sys.stdin.buffer, graph_type=Graph, function_type=Function, absent=absent))
        except ModelFileError as error:
            if "external data" not in str(error.where):
                fix = error.fix or "pipe a model into standard input, or give a path instead of '-'"
                raise ModelFileError(error.what, where="standard input", fix=fix) from error
            raise ModelFileError(
                error.what, where=error.where, fix="give the model's path instead of '-': its data is looked for beside it"
            ) from error


def read_two(options: argparse.Namespace, session: Session) -> tuple[Graph, Graph]:
    """Load ``model`` and ``other``.

    Raises:
        GraphValueError: both are standard input.
        ModelFileError: there is no such file, or it is no model.
    """
    from onnx_gs.errors import GraphValueError

    if options.model == options.other == "-":
        raise GraphValueError("standard input holds one model, and both are '-'", fix="give the path of one of them")
    return read(options.model, session), read(options.other, session)


def checked(path: str, session: Session) -> str | bytes:
    """Give a model's path, or the bytes of standard input or of what is stored as text.

    What it gives was seen to be a model: TensorRT takes some other files for empty ones.

    Raises:
        ModelFileError: there is no such file, or it is no model.
        GraphError: it is not valid ONNX.
    """
    from onnx_gs import load, save
    from onnx_gs.io import formats
    from onnx_gs.trt.validity import require_valid

    if path != "-":
        graph = read(path, session)
        require_valid(graph)
        if formats.of(path) in {None, formats.ONNX}:
            return path
        spelled = io.BytesIO()
        save(graph, spelled)
        return spelled.getvalue()

    content = sys.stdin.buffer.read()
    require_valid(load(io.BytesIO(content)))
    return content


def check_output(options: argparse.Namespace) -> None:
    """See that ``--output`` names a file that a model can be written to, before the work is done.

    Raises:
        ModelFileError: it cannot.
    """
    from onnx_gs.io import formats
    from onnx_gs.io.writer import check_target

    if options.output != "-":
        formats.for_writing(options.output)
        check_target(options.output)
    _spare_input(options)


def _spare_input(options: argparse.Namespace) -> None:
    """See that the data file is not the model that is read, which would be lost.

    Raises:
        ModelFileError: it is.
    """
    from onnx_gs.errors import ModelFileError

    beside = getattr(options, "external_data", None)
    if not beside or beside == "keep" or "-" in {options.model, options.output}:
        return
    path = Path(options.output).parent / beside
    if path.exists() and Path(options.model).exists() and path.samefile(options.model):
        what = f"external data '{beside}' would overwrite the model that is read"
        raise ModelFileError(what, where=f"file '{options.model}'", fix="give a name such as weights.data")


def write(graph: ir.Graph, options: argparse.Namespace, session: Session) -> None:
    """Save a model where ``--output`` says; ``-`` is standard output.

    Raises:
        ModelFileError: it cannot be written.
    """
    from onnx_gs.io import files, formats

    with session.progress("writing"):
        if options.output != "-":
            formats.save(graph, options.output, external_data=getattr(options, "external_data", None))
            return
        files.save(graph, sys.stdout.buffer, external_data=options.external_data)
        sys.stdout.buffer.flush()


def node_count(graph: ir.Graph) -> int:
    """Count nodes, those in bodies and functions included, ``Constant`` nodes apart."""
    from onnx_gs.ir import walk

    return sum(node.op != "Constant" for _, node in walk.nodes(graph, functions=True))
