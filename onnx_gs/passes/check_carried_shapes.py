"""Carried values whose declared shape cannot be right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis import shape_inference
from onnx_gs.analysis.loops import LoopParts
from onnx_gs.ir import Variable, walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.base import Pass

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.passes.base import Report

_MOST_ROUNDS = 4


@dataclass(frozen=True)
class CheckCarriedShapes(Pass):
    """Forget the declared shape of a carried value where the loop itself contradicts it.

    Exporters declare for a value that grows the shape that it has in the first trip. What inference concludes from that, and folding from
    inference, would be wrong in the second.

    Matches:   a carried value of ``ai.onnx::Loop`` that starts with, or is after a trip, of another rank or size than its input inside says.
    Rewrites:  the contradicted dims become unknown, and the shapes of what the body computes are inferred anew.
    Declines:  nothing; dims that nothing contradicts are trusted.
    """

    name: ClassVar[str] = "check-carried-shapes"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the types in place and warn about what was wrong."""
        if not any(True for _ in walk.nodes(graph, op="Loop", functions=True)):
            return
        shape_inference.infer(graph)
        for _ in range(_MOST_ROUNDS):
            wrong = False
            for owner, node in walk.nodes(graph, op="Loop", functions=True):
                loop = LoopParts(node)
                if not loop.well_formed:
                    continue
                found = [k for k in range(loop.carried) if _contradicted(loop, k)]
                if found:
                    wrong = True
                    names = ", ".join(f"'{loop.state_in(k).name}'" for k in found)
                    report.warn(f"the declared shape of {names}, carried by loop '{node.name or loop.body.name}', cannot be right in every trip")
                    report.rewrote(owner, node, f"the declared shape of {names} is dropped")
                    _forget(graph, loop)
            if not wrong:
                return
            shape_inference.infer(graph)


def _contradicted(loop: LoopParts, k: int) -> bool:
    """Weaken the declared shape of a carried value where it cannot be right; tell whether it was."""
    inside = loop.state_in(k)
    if not isinstance(inside, Variable) or inside.type != "tensor_type" or inside.shape is None:
        return False
    dims: list[Any] | None = list(inside.shape)
    for other in (loop.state_out(k), loop.initial(k)):
        if dims is None or other.shape is None:
            continue
        if len(other.shape) != len(dims):
            dims = None
        else:
            dims = [None if is_static_dim(a) and is_static_dim(b) and int(a) != int(b) else a for a, b in zip(dims, other.shape)]
    if dims == list(inside.shape):
        return False
    inside.shape = dims
    return True


def _forget(graph: Graph, loop: LoopParts) -> None:
    public = {id(t) for t in graph.outputs}
    for body in walk.graphs(loop.body):
        for node in body.nodes:
            for t in node.outputs:
                _drop_shape(t)
    for t in loop.node.outputs:
        if id(t) not in public:
            _drop_shape(t)


def _drop_shape(t: Tensor) -> None:
    if isinstance(t, Variable) and t.name and t.type == "tensor_type":
        t.shape = None
