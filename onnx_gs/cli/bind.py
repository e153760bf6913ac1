"""Give dims their sizes, or make a fixed axis of an input dynamic.

--bind batch=4 fixes the dim of that name, --bind x:0=4 axis 0 of input x, also where its dim has no name. --dynamic x:0:batch makes axis 0 of input x
symbolic, together with the constants that hold its old size because of it; given several times with one name, the axes are freed together. The
result is proved by running two sizes, and left unwritten (status 1) where that fails.
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
    size = "the size of a dim, by its name or as INPUT:AXIS (again for several)"
    parser.add_argument("--bind", metavar="DIM=N", type=shared.pair, help=size, **again)
    symbol = "make an axis of an input symbolic (again for several; those of one name are freed together)"
    parser.add_argument("--dynamic", metavar="INPUT:AXIS:NAME", help=symbol, **again)


def run(options: argparse.Namespace, session: Session) -> int:
    """Bind or free the dims."""
    from onnx_gs.passes.bind_dims import BindDims
    from onnx_gs.passes.make_dynamic import MakeDynamic

    if not options.bind and not options.dynamic:
        raise GraphValueError("nothing to do", fix="give --bind DIM=N or --dynamic INPUT:AXIS:NAME")
    passes: list[BindDims | MakeDynamic] = [BindDims(shared.bound_dims(options))] if options.bind else []
    for name, axes in _axes(options.dynamic).items():
        (first, axis), *further = axes.items()
        passes.append(MakeDynamic(first, axis, name, dict(further)))

    def rewrite(graph: Graph, report: Report) -> None:
        for p in passes:
            p.apply(graph, report)

    stated = rewriting.Stated(shared.bound_dims(options)) if options.bind else None

    def freed(report: Report) -> bool:
        return all(e.pass_name != MakeDynamic.name for e in report.declined)

    _, report = rewriting.rewrite(options, session, rewrite, stated, wanted=freed)
    return int(not freed(report))


def _axes(texts: list[str]) -> dict[str, dict[str, int]]:
    """Give, by the name of the dim, the axis of each input that gets it."""
    found: dict[str, dict[str, int]] = {}
    for text in texts:
        source, axis, name = _axis(text)
        if found.setdefault(name, {}).setdefault(source, axis) != axis:
            raise GraphValueError(f"--dynamic {text}: input '{source}' has the dim on two axes", fix="give each axis of an input a name of its own")
    return found


def _axis(text: str) -> tuple[str, int, str]:
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[1].lstrip("-").isdigit() or not parts[2]:
        raise GraphValueError(f"--dynamic {text} is not INPUT:AXIS:NAME", fix="write it as x:0:batch")
    return parts[0], int(parts[1]), parts[2]
