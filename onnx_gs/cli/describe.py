"""Show the loops and conditionals that TensorRT makes of a model, with what is inside them and the ONNX nodes they came from.

An engine (a file that is no ONNX model) can be described where a GPU is that it fits; it lists layers only, as control flow is compiled away.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from onnx_gs.cli import models

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", help="the model's or engine's file; - reads a model from standard input")
    parser.add_argument("--engine", action="store_true", help="the file is an engine (assumed for .engine, .plan and .trt)")
    parser.add_argument(
        "--layer-api", action="store_true", help="lower control flow by the layer API where that is possible, instead of by the ONNX parser"
    )
    parser.add_argument("--layers", action="store_true", help="list all layers")


def run(options: argparse.Namespace, session: Session) -> int:
    """Describe the model or engine."""
    from onnx_gs.trt.description import describe
    from onnx_gs.trt.engine import Engine

    logging.getLogger("onnx_gs.tensorrt").setLevel(logging.ERROR)  # what the parser warns of is `check`'s to say
    model: Any = options.model
    if options.engine or str(model).endswith((".engine", ".plan", ".trt")):
        found = describe(Engine.load(model))
    elif options.layer_api:
        from onnx_gs.trt.network_builder import NetworkBuilder

        built = NetworkBuilder.from_graph(models.read(model, session))
        found = built.describe()
        session.put(via=built.via, reasons=built.reasons)
        session.say(f"lowered by {'the layer API' if built.via == 'layers' else 'the ONNX parser: ' + '; '.join(built.reasons)}")
    else:
        found = describe(models.checked(model, session))
    session.put(result=found.as_dict())
    session.quiet = False  # what this command prints is what it was asked for
    session.say(str(found))
    if options.layers and found.kind == "network":
        session.table("Layers", ["type", "name", "ONNX nodes"], [(layer.type, layer.name, ", ".join(layer.onnx)) for layer in found.layers])
    return 0
