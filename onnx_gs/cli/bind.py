"""Give symbolic dims their values, or make a fixed axis of an input dynamic.

``--bind batch=4`` fixes a dim. ``--dynamic x:0:batch`` makes axis 0 of input ``x`` symbolic, together with the constants that hold its old size
because of it; the result is proved by running two sizes, and left unwritten (status 1) where that fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.cli import options as shared, rewriting
from onnx_gs.errors import GraphValueError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph
    from onnx_gs.passes.base import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    shared.add_verify(parser)
    again: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--bind", metavar="DIM=N", type=shared.pair, help="the size of a symbolic dim (again for several)", **again)
    parser.add_argument("--dynamic", metavar="INPUT:AXIS:NAME", help="make an axis of an input symbolic (again for several)", **again)


def run(options: argparse.Namespace, session: Session) -> int:
    """Bind or free the dims."""
    from onnx_gs.passes.bind_dims import BindDims
    from onnx_gs.passes.make_dynamic import MakeDynamic

    if not options.bind and not options.dynamic:
        raise GraphValueError("nothing to do", fix="give --bind DIM=N or --dynamic INPUT:AXIS:NAME")
    passes: list[BindDims | MakeDynamic] = [BindDims(shared.bound_dims(options))] if options.bind else []
    passes += [MakeDynamic(*_axis(text)) for text in options.dynamic]

    def rewrite(graph: Graph, report: Report) -> None:
        for p in passes:
            p.apply(graph, report)

    stated = rewriting.Stated(shared.bound_dims(options)) if options.bind else None

    def freed(report: Report) -> bool:
        return all(e.pass_name != MakeDynamic.name for e in report.declined)

    _, report = rewriting.rewrite(options, session, rewrite, stated, wanted=freed)
    return int(not freed(report))


def _axis(text: str) -> tuple[str, int, str]:
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[1].lstrip("-").isdigit() or not parts[2]:
        raise GraphValueError(f"--dynamic {text} is not INPUT:AXIS:NAME", fix="write it as x:0:batch")
    return parts[0], int(parts[1]), parts[2]
