"""Run a model in ONNX Runtime and an engine, or another model, on the same inputs, and compare output by output.

Status 0: every output is equal, or close within the tolerances, and which of the two is said; 1: one differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.cli import models, options as shared
from onnx_gs.errors import GraphValueError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph
    from onnx_gs.trt.comparison import Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    parser.add_argument("other", metavar="OTHER", help="another model, or an engine, which TensorRT runs on a GPU")
    parser.add_argument("--inputs", "--feeds", metavar="FILE.npz", help="values of inputs of either model, by name; the others are made up")
    parser.add_argument(
        "--absolute", type=shared.tolerance, metavar="X", help="absolute differences up to this are none (default: 1e-5 for an engine, 0 for a model)"
    )
    parser.add_argument(
        "--relative", type=shared.tolerance, metavar="X", help="relative differences up to this are none (default: 1e-3 for an engine, 0 for a model)"
    )
    parser.add_argument("--seed", type=shared.seed, metavar="N", default=0, help="another seed makes up other inputs (default: 0)")
    parser.add_argument("--device", type=int, metavar="N", default=0, help="the GPU (default: 0)")
    parser.add_argument("--layerwise", action="store_true", help="compare two models tensor by tensor, and name the first that differs")
    parser.add_argument(
        "--evaluators", metavar="A,B",
        help="for --layerwise: what runs MODEL and OTHER, each onnxruntime (default), onnxruntime-optimized, onnxruntime-cuda, reference or tensorrt",
    )  # fmt: skip
    parser.add_argument("--plot", metavar="FILE.svg", help="for --layerwise: draw the error along the model")


def run(options: argparse.Namespace, session: Session) -> int:
    """Compare."""
    from onnx_gs.cli.run import is_model
    from onnx_gs.trt.comparison import compare

    shared.no_use(options, "--layerwise", "--evaluators", "--plot")
    if options.layerwise:
        return _layerwise(options, session)
    graph: Graph
    other: Graph | str
    graph, other = models.read_two(options, session) if is_model(options.other) else (models.read(options.model, session), options.other)
    given = shared.read_feeds(options.inputs, graph, None if isinstance(other, str) else other)
    with session.progress("running"), shared.inputs_made_up(graph, given):
        found = compare(graph, other, given, absolute=options.absolute, relative=options.relative, seed=options.seed, device=options.device)
    session.put(result=found.as_dict())
    session.table(
        "Outputs",
        ["verdict", "name", "how"],
        [("equal" if d is None else "differs" if not found.covers(d) else "close", name, d or "") for name, d in found.outputs.items()],
    )
    session.say(_verdict(found), style="green" if found.same else "red")
    return 0 if found.same else 1


def _verdict(found: Comparison) -> str:
    """Say whether outputs are equal, close or different, and by which measure."""
    allowed = f"absolute {found.absolute:g}, relative {found.relative:g}"
    if found.first is not None:
        return f"output '{found.first}' differs" + (f" by more than the tolerances ({allowed})" if found.absolute or found.relative else "")
    apart = [d.absolute for d in found.outputs.values() if d is not None]
    if not apart:
        return "the same: every value is equal"
    return f"the same within the tolerances ({allowed}): values are at most {max(apart):.3g} apart"


def _layerwise(options: argparse.Namespace, session: Session) -> int:
    from pathlib import Path

    from onnx_gs.cli.run import is_model
    from onnx_gs.debug.layerwise import layerwise

    shared.check_file(options.plot, ".svg")
    if not is_model(options.other):
        what = f"--layerwise compares two models, and '{options.other}' has no extension of one"
        raise GraphValueError(what, fix="leave --layerwise out for an engine")
    first, _, second = (options.evaluators or "onnxruntime").partition(",")
    graph, other = models.read_two(options, session)
    given = shared.read_feeds(options.inputs, graph, other)
    near, by = options.absolute or 0.0, options.relative or 0.0
    with session.progress("comparing"), shared.inputs_made_up(graph, given):
        found = layerwise(graph, other, feeds=given, evaluators=(first, second or first), absolute=near, relative=by, seed=options.seed)
    if options.plot:
        Path(options.plot).write_text(found.plot(), encoding="utf-8")
    session.put(result=found.as_dict())
    for title, rows in (("Tensors that differ", found.differing), ("Inner tensors that differ, and no output by them", found.inner)):
        if rows:
            session.table(title, ["made by", "name", "other", "how"], [(r.producer, r.name, r.other, str(r.difference)) for r in rows], limit=20)
    session.say(str(found), style="red" if found.first else "green")
    if found.unmatched:
        session.say(f"  not compared, as the other model has no counterpart: {len(found.unmatched):,} tensors")
    return int(found.first is not None)
