"""Make a model smaller without changing what it computes.

Computes what is constant, resolves shape arithmetic, also under symbolic dims, drops what does nothing, shares what is there twice, and drops what
no output needs. Inputs and outputs keep their names, order and types. What was left alone is listed with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.cli import options as shared, rewriting
from onnx_gs.passes.simplify import Simplify

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session

FIELDS = ("size_threshold", "max_growth", "fuse", "keep_zero_sign", "keep_subnormals")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    shared.add_verify(parser)
    shared.add_fields(parser, Simplify, FIELDS)
    shared.add_pass_choice(parser)


def simplification(options: argparse.Namespace) -> Simplify:
    """Make the pass that the options ask for."""
    given: dict[str, Any] = {name: getattr(options, name) for name in FIELDS if hasattr(options, name)}
    given.update(shared.pass_choice(options))
    return Simplify(**given)


def run(options: argparse.Namespace, session: Session) -> int:
    """Fold the model."""
    rewriting.rewrite(options, session, simplification(options).apply, tolerant=getattr(options, "fuse", False))
    return 0
