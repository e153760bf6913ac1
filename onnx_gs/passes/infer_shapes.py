"""Write inferred dtypes and shapes down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import shape_inference
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from onnx_gs.ir import Graph


@dataclass(frozen=True)
class InferShapes(Pass):
    """Write the dtypes and shapes that ONNX's inference finds down on the values of the graph and its bodies.

    Matches:   values whose dtype, rank or dims are not known.
    Rewrites:  their ``dtype`` and ``shape``; what is declared is never weakened.
    Declines:  values behind operators that ONNX does not define; they stay as they are.
    """

    name: ClassVar[str] = "infer-shapes"

    def run(self, graph: Graph, report: Report) -> None:
        """Infer. Nothing is rewritten, so nothing is noted."""
        shape_inference.infer(graph)
