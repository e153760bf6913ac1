"""ONNX text: graphs as people write them in tests, documentation and on the command line."""

from __future__ import annotations

import re
from typing import Any

import onnx
import onnx.parser
import onnx.printer

from onnx_gs.errors import GraphError
from onnx_gs.io.exporter import export_onnx
from onnx_gs.io.importer import import_model
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph

_HEADER = re.compile(r"\s*(?:#[^\n]*\n\s*)*<")


def parse(
    text: str,
    *,
    opset: int | None = None,
    ir_version: int | None = None,
    graph_type: type[Graph] = Graph,
    function_type: type[Function] = Function,
) -> Graph:
    """Make a graph of ONNX text: a model with its header, or one graph alone.

    Args:
        text: the text.
        opset: the version of ONNX's own operators for a graph alone; the newest that the installed ``onnx`` knows by default.
        ir_version: the IR version for a graph alone, likewise.
        graph_type: the class to build.
        function_type: the class of local functions.

    Raises:
        GraphError: the text does not parse; ``where`` tells line and column.

    Example:
        >>> [node.op for node in parse("g (float[2] x) => (float[2] y) { y = Neg (x) }").nodes]
        ['Neg']
    """
    alone = not _HEADER.match(text)
    if alone:
        version = opset if opset is not None else onnx.defs.onnx_opset_version()
        text = f'<ir_version: {ir_version or onnx.IR_VERSION}, opset_import: ["" : {version}]>\n{text}'
    try:
        model = onnx.parser.parse_model(text)
    except (onnx.parser.ParseError, IndexError, ValueError, RuntimeError) as error:  # of numbers that it cannot hold, the parser says so by others
        raise GraphError(f"ONNX text does not parse: {_reason(error, above=int(alone))}", fix="see onnx/docs/Syntax.md") from error
    return import_model(model, graph_type=graph_type, function_type=function_type, owned=True)


def _reason(error: Exception, above: int) -> str:
    """Spell what the parser says, which comes as bytes with a fixed form; ``above`` lines were put above the text."""
    said = error.args[0] if error.args else ""
    said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    match = re.match(r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\s*Error context:(.*?)\n(.*)", said, re.DOTALL)
    if match is None:
        return " ".join(said.split())[:400]
    line, column, context, reason = match.groups()
    return f"line {max(1, int(line) - above)}, column {column}: {' '.join(reason.split())[:300]} (near '{' '.join(context.split())[:80]}')"


def show(graph: Graph, *, do_type_check: bool = False) -> str:
    """Give a graph as ONNX text, local functions included.

    Args:
        graph: the graph.
        do_type_check: refuse inputs and outputs of unknown element type.

    Raises:
        GraphError: the graph cannot be exported, or the installed ``onnx`` cannot print it.

    Example:
        >>> print(show(parse("g (float[2] x) => (float[2] y) { y = Neg (x) }", opset=18, ir_version=9)))
        <
           ir_version: 9,
           opset_import: ["" : 18]
        >
        g (float[2] x) => (float[2] y) {
           y = Neg (x)
        }
    """
    return printed(export_onnx(graph, do_type_check))


def printed(message: Any) -> str:
    """Give a message of ONNX as text.

    Raises:
        GraphError: the installed ``onnx`` cannot print it.
    """
    try:
        return str(onnx.printer.to_text(message))
    except (RuntimeError, ValueError, TypeError) as error:
        raise GraphError(f"the installed onnx cannot print this as text: {error}") from error
