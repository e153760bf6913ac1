"""Show a model, or two side by side, as one HTML page that needs no network.

The page has the graph with its bodies and name scopes, which open and close, search, and the details of every node. What stands between the model and
TensorRT is marked; of two models, how they differ. ``--netron`` opens the model in netron instead, where that is installed.
"""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.cli import models, options as shared
from onnx_gs.errors import GraphValueError, MissingExtraError, ModelFileError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second model, shown beside the first with the differences marked")
    parser.add_argument("-o", "--output", metavar="OUT.html", help="where the page goes; - writes standard output")
    parser.add_argument("--weights", action="store_true", help="compute statistics of all weights, which reads them")
    parser.add_argument("--target", metavar="NAME", help="mark what stands between the model and this version of TensorRT (default: as for check)")
    parser.add_argument("--no-check", action="store_true", help="do not mark what TensorRT does not take")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--netron", action="store_true", help="open the model in netron instead of writing a page")


def run(options: argparse.Namespace, session: Session) -> int:
    """Write the page."""
    if options.netron:
        return _netron(options)
    if options.output is None:
        raise GraphValueError("there is nowhere to put the page", fix="give -o page.html")
    from onnx_gs.viewer.page import page

    shared.check_file(options.output, ".html", ".htm")
    graph, other = models.read_two(options, session) if options.other else (models.read(options.model, session), None)
    titles = (Path(options.model).name, Path(options.other).name if options.other else "")
    with session.progress("drawing"):
        findings = (_findings(graph, options), _findings(other, options))
        text = page(graph, other, titles=titles, weights=options.weights, findings=findings)
    if options.output == "-":
        import sys

        sys.stdout.write(text)
    else:
        Path(options.output).write_text(text, encoding="utf-8")
    session.put(result={"output": options.output, "bytes": len(text.encode())})
    session.say(f"{options.model}{f' and {options.other}' if options.other else ''} → {options.output}", style="bold")
    if options.open and options.output != "-":
        webbrowser.open(Path(options.output).resolve().as_uri())
    return 0


def _findings(graph: Graph | None, options: argparse.Namespace) -> list[tuple[str, Any]]:
    if graph is None or options.no_check:
        return []
    from onnx_gs.trt.readiness import check

    found = check(graph, options.target, static=True)
    return [*(("blocker", b) for b in found.blockers), *(("warning", w) for w in found.warnings)]


def _netron(options: argparse.Namespace) -> int:
    import importlib

    try:
        netron = importlib.import_module("netron")
    except ImportError as error:
        missing = MissingExtraError("netron", "netron", "open a model in netron")
        missing.fix = "pip install netron, or leave --netron out"
        raise missing from error
    if not Path(options.model).is_file():
        raise ModelFileError("there is no such file", where=options.model)
    netron.start(options.model)
    netron.wait()
    return 0
