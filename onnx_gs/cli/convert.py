"""Store a model in another way: external data or one file, another opset, ONNX text.

A result named ``*.txt`` or ``*.onnxtxt`` is written as ONNX text, and such a file is read as ONNX text. ``--opset N`` converts ONNX's own operators
with ONNX's version converter.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from onnx_gs.cli import models, options as shared
from onnx_gs.errors import ModelFileError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph

TEXT = (".txt", ".onnxtxt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    parser.add_argument("--opset", type=int, metavar="N", help="convert to this version of ONNX's own operators")


def run(options: argparse.Namespace, session: Session) -> int:
    """Convert."""
    graph = _read(options.model, session)
    if options.opset is not None and options.opset != graph.opset:
        graph = _converted(graph, options.opset)
    if options.output.endswith(TEXT):
        from onnx_gs.io import text

        Path(options.output).write_text(text.show(graph), encoding="utf-8")
    else:
        models.write(graph, options, session)
    session.put(result={"output": options.output, "opset": graph.opset})
    session.say(f"{options.model} → {options.output}: opset {graph.opset}", style="bold")
    return 0


def _read(path: str, session: Session) -> Graph:
    if not path.endswith(TEXT):
        return models.read(path, session)
    from onnx_gs.graph import Function, Graph
    from onnx_gs.io import text

    try:
        content = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"'{path}' cannot be read as text: {error}") from error
    return cast("Graph", text.parse(content, graph_type=Graph, function_type=Function))


def _converted(graph: Graph, opset: int) -> Graph:
    from onnx_gs.graph import import_onnx
    from onnx_gs.io import versions

    return import_onnx(versions.convert(graph, opset))
