"""Drop the nodes that no output depends on.

Inputs and outputs of the model, of bodies and of functions stay. Nothing is computed, merged or moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.cli import options as shared, rewriting
from onnx_gs.passes.cleanup import Cleanup

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    shared.add_verify(parser)
    shared.add_fields(parser, Cleanup)


def run(options: argparse.Namespace, session: Session) -> int:
    """Clean the model up."""
    rewriting.rewrite(options, session, Cleanup(**shared.fields_given(options, Cleanup)).apply)
    return 0
