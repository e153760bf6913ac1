"""Cut a part out of a model, as a model of its own.

Inputs and outputs are names of tensors or nodes, or paths such as ``Loop_3 > body > name`` that lead into bodies. What the part needs from outside
becomes an input; weights stay where they are. With ``--record``, the model is run once and the real values at the border are stored beside the part.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    parser.add_argument("--hops", type=int, metavar="K", help="for --around: how many edges it reaches (default: 1)")
    parser.add_argument("--record", metavar="FOLDER", help="store the values at the border, from one run of the model, in this folder")
    parser.add_argument("--feeds", metavar="FILE", help="for --record: an .npz file with values of the model's inputs; the others are made up")
    parser.add_argument("--trip", type=int, metavar="N", help="for --record of a part inside a body: which time that the body ran (default: 0)")


def run(options: argparse.Namespace, session: Session) -> int:
    """Cut and write."""
    from onnx_gs.debug.isolate import isolate

    chosen = [flag for flag in ("--nodes", "--op", "--around") if getattr(options, flag[2:])]
    if len(chosen) > 1 or (chosen and (options.inputs or options.outputs)):
        raise GraphValueError("--nodes, --op, --around, and --inputs with --outputs, are four ways to say one thing", fix="give one of them")
    shared.no_use(options, "--around", "--hops")
    shared.no_use(options, "--record", "--feeds", "--trip")
    models.check_output(options)
    graph = models.read(options.model, session)
    if options.op and not any(node.op == options.op for node in graph.nodes):
        raise GraphValueError(f"the main graph has no '{options.op}' node", fix=_other_ops(graph, options.op))
    hops = 1 if options.hops is None else options.hops
    if hops < 0:
        raise GraphValueError(f"--hops {hops} is less than 0", fix="give 0 for the node itself, 1 for its neighbors too, and so on")
    part = isolate(graph, options.inputs, options.outputs, nodes=options.nodes, op=options.op, around=options.around, hops=hops)
    recorded = _recorded(graph, part, options, session) if options.record else None
    models.write(part, options, session)
    if recorded is not None:
        from onnx_gs.debug.capture import save_test_data

        session.put(recorded=[str(file) for file in save_test_data(Path(options.record), *recorded)])
    border = {"inputs": [t.name for t in part.inputs], "outputs": [t.name for t in part.outputs]}
    session.put(result={"output": options.output, "nodes": models.node_count(part), **border})
    session.say(f"{options.model} → {options.output}: {_extent(part)}", style="bold")
    session.say()
    show_values("Inputs", part.inputs, session)
    show_values("Outputs", part.outputs, session)
    if recorded is not None:
        inputs, outputs = recorded
        session.say(f"recorded {counted(len(inputs), 'input')} and {counted(len(outputs), 'output')} in {options.record}")
    return 0


def _extent(part: Graph) -> str:
    """Spell how many nodes a part has, bodies included, as the other commands count them."""
    from onnx_gs.ir import walk

    constants = sum(1 for _ in walk.nodes(part, op="Constant", functions=True))
    return counted(models.node_count(part), "node") + (f" besides {counted(constants, 'Constant node')}" if constants else "")


def _other_ops(graph: Graph, op: str) -> str:
    """Say where the nodes of an operator are, or which operators there are."""
    from difflib import get_close_matches

    from onnx_gs.ir import show, walk

    places = show.Places(graph)
    inside = [places.node(owner, node) for owner, node in walk.nodes(graph) if node.op == op]
    if inside:
        return f"name those in bodies by --nodes: {'; '.join(place.partition(' > ')[2] for place in inside[:3])}"
    there = {node.op.lower(): node.op for node in graph.nodes}
    near = [there[name] for name in get_close_matches(op.lower(), there, n=3)]
    return f"did you mean {' or '.join(near)}?" if near else "`onnx-gs inspect` lists the operators"


def _recorded(graph: Graph, part: Graph, options: argparse.Namespace, session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the model once and give the values at the part's border."""
    from onnx_gs.debug.capture import record_part
    from onnx_gs.evaluate import feeds

    given = shared.read_feeds(options.feeds, graph)
    with session.progress("recording"), shared.inputs_made_up(graph, given):
        return feeds.first_that_run(graph, lambda values: record_part(graph, part, values, trip=options.trip or 0), given=given)[1]
