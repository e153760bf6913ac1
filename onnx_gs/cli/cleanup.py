"""Drop the nodes that no output depends on.

Inputs and outputs of the model, of bodies and of functions stay. Nothing is computed, merged or moved.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from onnx_gs.cli import options as shared, rewriting
from onnx_gs.passes.cleanup import Cleanup

if TYPE_CHECKING:
    from onnx_gs.cli.report import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    shared.add_verify(parser)
    parser.add_argument("--unused-outputs", action="store_true", default=argparse.SUPPRESS, help="also leave out optional outputs that nothing reads")


def run(options: argparse.Namespace, session: Session) -> int:
    """Clean the model up."""
    rewriting.rewrite(options, session, Cleanup(**shared.fields_given(options, Cleanup)).apply)
    return 0
