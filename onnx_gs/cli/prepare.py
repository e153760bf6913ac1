"""Make a model ready for TensorRT: simplify it, lower its control flow, change what TensorRT does not take, and say what is left in the way.

The result is written also when blockers are left; the status is 1 then. What blocks is looked up in the table for --target; TensorRT need not be
installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.cli import options as shared, rewriting
from onnx_gs.cli.fold import FIELDS, simplification
from onnx_gs.cli.lower import add_lowering, lowering
from onnx_gs.cli.report import CUT, EVERYTHING, place, shortened
from onnx_gs.passes.simplify import Simplify

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph
    from onnx_gs.passes.base import Report
    from onnx_gs.trt.findings import Finding
    from onnx_gs.trt.readiness import Readiness

FIRST = 3  # nodes of one kind that are told


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    shared.add_verify(parser)
    parser.add_argument("--target", metavar="NAME", help="what to prepare for, such as tensorrt-10.3 or rtx-1.7 (default: as for check)")
    shared.add_fields(parser, Simplify, FIELDS)
    shared.add_pass_choice(parser)
    add_lowering(parser)


def run(options: argparse.Namespace, session: Session) -> int:
    """Prepare the model."""
    from onnx_gs.trt.capability import note_on, target_of
    from onnx_gs.trt.recipe import Prepare, readiness_of, reorders

    target = target_of(options.target)  # before the model is read: a wrong name is said at once

    dims = shared.bound_dims(options)
    values: dict[str, np.ndarray[Any, Any]] = {}
    stated = rewriting.Stated(dims, values)

    def prepare(graph: Graph, report: Report) -> None:
        values.update(shared.frozen_values(options, graph))
        Prepare(str(target), simplification(options), lowering(options, graph, dims, values)).apply(graph, report)

    asked = getattr(options, "fuse", False) or getattr(options, "reorder", False)
    _, report = rewriting.rewrite(options, session, prepare, stated, tolerant=lambda report: asked or reorders(report))
    found = readiness_of(report)
    session.put(target=str(found.target), blockers=[blocker.as_dict() for blocker in found.blockers])
    if found.blockers:
        _show_blockers(found, session)
    else:
        session.say(f"ready for {found.target} (checked {found.how}: `onnx-gs check` asks it, where it is installed)", style="green")
    for warning in found.warnings:
        session.say(f"warning: {warning.title}: {warning.reason} ({warning.path})", style="yellow")
    newer = note_on(found.target)
    if newer is not None:
        session.say(f"note: {newer}", style="dim")
    return 1 if found.blockers else 0


def _show_blockers(found: Readiness, session: Session) -> None:
    """Tell what is in the way: each kind with its remedy once, and the first nodes of it."""
    session.say(f"\nIn the way of {found.target}", style="bold")
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for blocker in found.blockers:
        kinds.setdefault((blocker.title, blocker.remedy), []).append(blocker)
    lines = []
    for (title, remedy), alike in kinds.items():
        lines += [f" {title}", f"     remedy: {remedy}"]
        lines += [f"     {place(blocker.path)}: {shortened(blocker.reason)}" for blocker in alike[:FIRST]]
        if len(alike) > FIRST:
            lines.append(f"     and {len(alike) - FIRST:,} more ({EVERYTHING})")
    for line in lines:
        session.say(line)
    if any(blocker.passes for blocker in found.blockers):
        session.say("  (`onnx-gs prepare` has run the passes that remedies name: where they changed nothing, they declined)")
    if any(CUT in line for line in lines):
        session.say(f"  {CUT} stands for what was left out ({EVERYTHING})")
