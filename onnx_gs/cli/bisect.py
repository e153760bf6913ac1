"""Find the smallest part of a model that still fails a check.

The check is a command; ``{model}`` in it stands for the part's file, ``{folder}`` for the folder that holds the file; where neither stands in it, the
file comes last. A part passes when the command exits with status 0. Each part has real inputs beside it, in ``test_data_set_0``. An interrupted
search goes on where it was when the same ``--folder`` is given again. Status 1: a failing part was found; 2: the whole model passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.cli import models, options as shared
from onnx_gs.cli.report import counted

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    parser.add_argument(
        "--check", metavar="COMMAND", required=True,
        help="the command, such as 'python check.py {model}'; without {model} or {folder} the file is added at its end",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="OUT", help="where the failing part goes (default: it stays in the folder)")
    parser.add_argument("--folder", metavar="FOLDER", default="bisect", help="where parts and the log are kept (default: bisect)")
    parser.add_argument("--mode", choices=("halves", "linear"), default="halves", help="halve the range each time, or go node by node")
    parser.add_argument("--fail-pattern", metavar="REGEX", help="the part fails when the command's output matches this, whatever its status")
    parser.add_argument("--timeout", type=shared.tolerance, metavar="SECONDS", help="the part fails when the command takes longer")
    parser.add_argument("--feeds", metavar="FILE", help="an .npz file with values of the model's inputs; the others are made up")


def run(options: argparse.Namespace, session: Session) -> int:
    """Search."""
    from onnx_gs.debug.bisect import bisect

    if options.output is not None:
        models.check_output(options)
    graph = models.read(options.model, session)
    given = shared.read_feeds(options.feeds, graph)
    with session.progress("bisecting"):
        found = bisect(
            graph, options.check, feeds=given, mode=options.mode, folder=options.folder, fail_pattern=options.fail_pattern, timeout=options.timeout
        )
    model = options.output or str(found.model)
    if options.output:
        models.write(found.part, options, session)
    session.put(result={"model": model, "nodes": found.nodes, "runs": found.runs, "log": f"{options.folder}/bisect.json"})
    fails = "fails" if len(found.nodes) == 1 else "fail"
    session.say(f"{counted(len(found.nodes), 'node')} still {fails}, after {counted(found.runs, 'run')}: {model}", style="bold")
    for node in found.nodes[:20]:
        session.say(f"  {node}")
    return 1
