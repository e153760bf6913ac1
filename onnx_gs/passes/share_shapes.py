"""Shape arithmetic that computes what another tensor holds already, or what the shape of a tensor says in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis.dim_expr import Expr
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_values import Contents, Shape
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.tensor import Tensor

_MOST_SHAPES = 256


@dataclass(frozen=True)
class ShareShapes(Pass):
    """Compute each shape value once, and in one step where it is part of a tensor's shape.

    Matches:   a node whose only output is a small integer tensor that, for every size of the symbolic dims, holds what an earlier tensor of the same
               graph holds, or the dims (or some in a row) of an earlier tensor or of a graph input.
    Rewrites:  its readers read the earlier tensor; or the node becomes ``Shape`` of that tensor, with ``start`` and ``end`` (opset 15).
    Declines:  nothing.
    """

    name: ClassVar[str] = "share-shapes"

    def run(self, graph: Graph, report: Report) -> None:
        """Share in every graph by itself, in node order."""
        for work in works(graph, report):
            if not any(_is_symbolic(held) for held in work.facts._contents.values()):
                continue
            for owner in list(walk.graphs(work.root)):
                self._share(work, owner)
            work.finish()

    def _share(self, work: Work, owner: Graph) -> None:
        facts = work.facts
        values: dict[Any, Tensor] = {}
        shapes: dict[Shape, Tensor] = {}
        for t in (*work.root.inputs, *owner.inputs):
            _note(shapes, facts.shape(t), t)
        for node in owner.nodes:
            if not node._outputs:
                continue
            t = node._outputs[0]
            held = facts._contents.get(id(t)) if len(node._outputs) == 1 else None
            if _is_symbolic(held) and not isinstance(t, Constant):
                assert held is not None
                dtype = facts.dtype(t)
                key = (dtype.number if dtype else None, held)
                twin = values.get(key)
                if twin is not None and work.can_replace(t, twin):
                    work.report.rewrote(owner, node, f"the same as '{twin.name}' for every size")
                    work.edit.replace(owner, node, [], [twin])
                    continue
                if dtype is dtypes.INT64 and node.op != "Shape" and len(held.shape) == 1:
                    _as_shape(work, owner, node, held, shapes)
                values.setdefault(key, t)
                continue
            for out in node._outputs:
                if out._name:
                    _note(shapes, facts.shape(out), out)


def _is_symbolic(held: Contents | None) -> bool:
    """Say whether everything is known about contents, by name at least, and something by name only."""
    return held is not None and None not in held.items and any(isinstance(i, Expr) for i in held.items)


def _note(shapes: dict[Shape, Tensor], shape: Shape | None, t: Tensor) -> None:
    if shape and len(shapes) < _MOST_SHAPES and any(isinstance(d, Expr) for d in shape):
        shapes.setdefault(shape, t)


def _as_shape(work: Work, owner: Graph, node: Node, held: Contents, shapes: dict[Shape, Tensor]) -> None:
    wanted, count = held.items, len(held.items)
    for shape, t in shapes.items():
        for start in range(len(shape) - count + 1):
            if shape[start : start + count] != wanted:
                continue
            attrs: dict[str, Any] = {}
            if count != len(shape):
                if work.root.opset < 15:
                    continue
                attrs = {"start": start, "end": start + count}
            work.report.rewrote(owner, node, f"a part of the shape of '{t.name}'")
            node.op, node.domain, node.attrs = "Shape", None, attrs
            node.inputs = [t]
            return
