"""Carried values whose declared shape cannot be right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis.loops import LoopParts
from onnx_gs.ir import Variable, walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.base import Pass
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_functions import Shape
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.passes.base import Report

_MOST_ROUNDS = 4


@dataclass(frozen=True)
class CheckCarriedShapes(Pass):
    """Forget the declared shape of a carried value where the loop itself contradicts it.

    Exporters declare for a value that grows the shape that it has in the first trip. What inference concludes from that, and folding from
    inference, would be wrong in the second.

    Matches:   a carried value of ``ai.onnx::Loop`` that starts with, or is after a trip, of another rank or size than its input inside says.
    Rewrites:  the contradicted dims become unknown, and so do the shapes of what the body computes.
    Declines:  nothing; dims that nothing contradicts are trusted.
    """

    name: ClassVar[str] = "check-carried-shapes"
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the types in place and warn about what was wrong."""
        for work in works(graph, report):
            loops = [(owner, LoopParts(node)) for owner, node in walk.nodes(work.root, op="Loop")]
            loops = [(owner, loop) for owner, loop in loops if loop.well_formed and any(_declares(loop.state_in(k)) for k in range(loop.carried))]
            for _ in range(_MOST_ROUNDS):
                if not loops or not _check(work, loops):
                    break


def _check(work: Work, loops: list[tuple[Graph, LoopParts]]) -> bool:
    """Look at the loops of a root once; say whether a declared shape was weakened."""
    facts, wrong = work.facts, False
    for owner, loop in loops:
        with facts.supposing():  # that the declarations are true
            declared = [facts.declared(t) for t in loop.body.inputs]
            facts.visit_body(loop.body, [(facts.dtype(t), shape) for t, shape in zip(loop.body.inputs, declared)])
            found = [k for k in range(loop.carried) if _weaken(loop.state_in(k), facts.shape(loop.state_out(k)), facts.shape(loop.initial(k)))]
        if found:
            wrong = True
            node = loop.node
            names = ", ".join(f"'{loop.state_in(k).name}'" for k in found)
            work.report.warn(f"the declared shape of {names}, carried by loop '{node.name or loop.body.name}', cannot be right in every trip")
            work.report.rewrote(owner, node, f"the declared shape of {names} is dropped")
            _forget(work.root, loop)
    if wrong:
        work.forget_facts()
    return wrong


def _declares(t: Tensor) -> bool:
    return isinstance(t, Variable) and t.type == "tensor_type" and t.shape is not None


def _weaken(inside: Tensor, *others: Shape | None) -> bool:
    """Weaken the declared shape of a carried value where it cannot be right; tell whether it was."""
    if not _declares(inside):
        return False
    declared = list(inside.shape or ())
    dims: list[Any] | None = declared
    for other in others:
        if dims is None or other is None:
            continue
        if len(other) != len(dims):
            dims = None
        else:
            dims = [None if is_static_dim(a) and isinstance(b, int) and int(a) != b else a for a, b in zip(dims, other)]
    if dims == declared:
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
