"""Replace control flow, If, Loop, Scan, sequences and optionals, as far as that can be done exactly.

What is left over is listed with the reasons. Statements about the inputs (--bind, --freeze) often decide what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.cli import options as shared, rewriting
from onnx_gs.passes.lower_control_flow import LowerControlFlow

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph
    from onnx_gs.passes.base import Report

FIELDS = ("max_nodes", "max_trips", "where", "unroll", "mask", "reorder")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    shared.add_output(parser)
    shared.add_verify(parser)
    add_lowering(parser)


def add_lowering(parser: argparse.ArgumentParser) -> None:
    """Add how to lower, and what the user states about the inputs."""
    shared.add_fields(parser, LowerControlFlow, FIELDS)
    shared.add_stated(parser)


def lowering(options: argparse.Namespace, graph: Graph, dims: dict[str, int], values: dict[str, np.ndarray[Any, Any]]) -> LowerControlFlow:
    """Make the pass that the options ask for."""
    given: dict[str, Any] = {name: getattr(options, name) for name in FIELDS if hasattr(options, name)}
    return LowerControlFlow(**given, bind=dims, freeze=values, bounds=shared.stated_bounds(options, graph))


def run(options: argparse.Namespace, session: Session) -> int:
    """Lower the model's control flow."""
    dims = shared.bound_dims(options)
    values: dict[str, np.ndarray[Any, Any]] = {}

    def lower(graph: Graph, report: Report) -> None:
        values.update(shared.frozen_values(options, graph))
        lowering(options, graph, dims, values).apply(graph, report)

    rewriting.rewrite(options, session, lower, rewriting.Stated(dims, values), tolerant=getattr(options, "reorder", False))
    return 0
