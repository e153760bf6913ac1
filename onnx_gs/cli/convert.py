"""Store a model in another way: external data or one file, another opset, text or JSON.

The extension of OUT tells the format, here and in every command that writes a model: .onnx and .pb are ONNX; .onnxtxt, .onnxtext and .txt are ONNX
text, for people; .textproto, .prototxt, .pbtxt and .txtpb are protobuf text; .json and .onnxjson are JSON. Models are read by their extension too.
``--opset N`` converts ONNX's own operators with ONNX's version converter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.cli import models, options as shared

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    parser.add_argument("--opset", type=int, metavar="N", help="convert to this version of ONNX's own operators")


def run(options: argparse.Namespace, session: Session) -> int:
    """Convert."""
    models.check_output(options)
    graph = models.read(options.model, session)
    if options.opset is not None and options.opset != graph.opset:
        graph = _converted(graph, options.opset)
    models.write(graph, options, session)
    session.put(result={"output": options.output, "opset": graph.opset})
    session.say(f"{options.model} → {options.output}: opset {graph.opset}", style="bold")
    return 0


def _converted(graph: Graph, opset: int) -> Graph:
    from onnx_gs.graph import import_onnx
    from onnx_gs.io import versions

    return import_onnx(versions.convert(graph, opset))
