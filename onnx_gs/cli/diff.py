"""Say how two models differ, whatever their tensors are called and in whatever order their nodes stand.

A Constant node counts as the initializer that it could be; how many are stored otherwise is told in one line. Status 1: the models differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnx_gs.cli import models, options as shared

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_model(parser, "other", "the model to compare with")
    parser.add_argument("--tolerance", type=shared.tolerance, metavar="X", help="the largest absolute difference of float weights that is none")
    parser.add_argument("--constants", action="store_true", help="tell of Constant nodes as of other nodes, also where the other has an initializer")
    parser.add_argument("--html", metavar="FILE", help="also write the differences as a page")


def run(options: argparse.Namespace, session: Session) -> int:
    """Compare the models."""
    from onnx_gs.debug.diff import diff

    shared.check_file(options.html, ".html", ".htm")
    before, after = models.read_two(options, session)
    with session.progress("comparing"):
        found = diff(before, after, tolerance=options.tolerance, constants=options.constants)
    session.put(other=options.other, result=found.as_dict())
    if options.html:
        Path(options.html).write_text(found.as_html(), encoding="utf-8")
    session.say(str(found))
    return int(bool(found))
