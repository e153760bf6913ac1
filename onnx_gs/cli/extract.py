"""Cut a part out of a model, as a model of its own.

Inputs and outputs are names of tensors or nodes, or paths such as ``Loop_3 > body > name`` that lead into bodies. What the part needs from outside
becomes an input; weights stay where they are. With ``--record``, the model is run once and the real values at the border are stored beside the part.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnx_gs.cli import models, options as shared
from onnx_gs.cli.inspect import show_values
from onnx_gs.cli.report import counted
from onnx_gs.errors import GraphValueError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.ir import Graph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    parser.add_argument("--inputs", metavar="NAME", nargs="+", default=[], help="where the part begins (default: the model's inputs)")
    parser.add_argument("--outputs", metavar="NAME", nargs="+", default=[], help="where the part ends (default: the model's outputs)")
    parser.add_argument("--nodes", metavar="NAME", nargs="+", default=[], help="instead: just these nodes")
    parser.add_argument("--op", metavar="OP", help="instead: all nodes of this operator in the main graph")
    parser.add_argument("--around", metavar="NAME", help="instead: the nodes around this node or tensor")
    parser.add_argument("--hops", type=int, default=1, metavar="K", help="how many edges --around reaches (default: 1)")
    parser.add_argument("--record", metavar="FOLDER", help="store the values at the border, from one run of the model, in this folder")
    parser.add_argument("--feeds", metavar="FILE", help="an .npz file with values of the model's inputs for --record (default: random)")
    parser.add_argument("--trip", type=int, default=0, metavar="N", help="for a part inside a body: which time that the body ran (default: 0)")


def run(options: argparse.Namespace, session: Session) -> int:
    """Cut and write."""
    from onnx_gs.debug.isolate import isolate

    graph = models.read(options.model, session)
    chosen = {"nodes": options.nodes} if options.nodes else {"op": options.op} if options.op else {"around": options.around, "hops": options.hops}
    if not (options.nodes or options.op or options.around):
        chosen = {}
    if chosen and (options.inputs or options.outputs):
        raise GraphValueError("--inputs and --outputs do not go with --nodes, --op or --around", fix="give one or the other")
    part = isolate(graph, options.inputs, options.outputs, **chosen)
    models.write(part, options, session)
    if options.record:
        _record(graph, part, options, session)
    border = {"inputs": [t.name for t in part.inputs], "outputs": [t.name for t in part.outputs]}
    session.put(result={"output": options.output, "nodes": models.node_count(part), **border})
    session.say(f"{options.model} → {options.output}: {counted(models.node_count(part), 'node')}", style="bold")
    show_values("Inputs", part.inputs, session)
    show_values("Outputs", part.outputs, session)
    return 0


def _record(graph: Graph, part: Graph, options: argparse.Namespace, session: Session) -> None:
    from onnx_gs.debug.capture import record_part, save_test_data
    from onnx_gs.evaluate import feeds

    given = feeds.make(graph, given=shared.read_feeds(options.feeds, graph))
    with session.progress("recording"):
        inputs, outputs = record_part(graph, part, given, trip=options.trip)
    files = save_test_data(Path(options.record), inputs, outputs)
    session.put(recorded=[str(f) for f in files])
    session.say(f"recorded {counted(len(inputs), 'input')} and {counted(len(outputs), 'output')} in {options.record}")
