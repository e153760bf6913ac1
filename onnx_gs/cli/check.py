"""Say what stands between a model and TensorRT: every blocker with its node, reason and remedy, and what TensorRT would silently do differently.

The table of what each version takes needs no TensorRT. Where a library is installed that is the target, its own parser and builder are asked too.
Status 0: ready; 1: something blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.cli import models, options as shared
from onnx_gs.cli.report import EVERYTHING
from onnx_gs.errors import GraphValueError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.trt.findings import Finding

ALSO = 2  # of further blockers of one kind, with one remedy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="what to check for, such as rtx-1.7 or tensorrt-10.3 (default: the installed library, else the newest in the table)",
    )
    parser.add_argument("--static", action="store_true", help="use the table only, also where TensorRT is installed")
    parser.add_argument("--no-build", action="store_true", help="ask the parser, but not the builder, which takes long on large models")
    parser.add_argument("--shapes", metavar="NAME:MIN..OPT..MAX", help="ranges of dynamic inputs for the builder, as for build")
    parser.add_argument("--dims", metavar="NAME=MIN..OPT..MAX", help="ranges of named dims for the builder, as for build")


def run(options: argparse.Namespace, session: Session) -> int:
    """Check the model."""
    from onnx_gs.io import formats
    from onnx_gs.ir.bulk import collector_paused, count_as_old
    from onnx_gs.trt.options import parse_dims
    from onnx_gs.trt.readiness import check

    if options.static and (options.shapes or options.dims):
        raise GraphValueError("--shapes and --dims are for the builder, which --static does not ask", fix="leave them out, or leave --static out")
    by_path = options.static and options.model != "-" and formats.of(options.model) in {None, formats.ONNX}  # that may not take a graph at all
    with collector_paused():
        model = options.model if by_path else models.read(options.model, session)
        count_as_old()
    settings = {}
    if options.shapes:
        settings["shapes"] = options.shapes
    if options.dims:
        settings["dims"] = parse_dims(options.dims)
    with session.progress("checking"), collector_paused():
        found = check(model, options.target, static=options.static, build=not options.no_build, **settings)
    session.put(
        result={"ready": found.ready, "target": str(found.target), "checked_by": found.checked_by, "notes": found.notes},
        blockers=[b.as_dict() for b in found.blockers],
        warnings=[w.as_dict() for w in found.warnings],
    )
    session.say(f"{'ready' if found.ready else 'not ready'} for {found.target} (checked {found.how})", style="green" if found.ready else "red")
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for blocker in found.blockers:
        kinds.setdefault((blocker.id, blocker.remedy), []).append(blocker)
    for first, *others in kinds.values():  # what is wrong and what to do about it is said once
        session.say(f"\nblocker: {first}")
        for other in others[:ALSO]:
            session.say(f"  also: {other.path}: {other.reason}")
        if len(others) > ALSO:
            session.say(f"  and {len(others) - ALSO:,} more ({EVERYTHING})")
    for warning in found.warnings:
        session.say(f"\nbuilds, but is not what ONNX says: {warning}", style="yellow")
    for note in found.notes:
        session.say(f"note: {note}", style="dim")
    return 0 if found.ready else 1
