"""Shape arithmetic that computes what another tensor holds already, or what the shape of a tensor says in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_arithmetic import Contents
    from onnx_gs.analysis.shape_functions import Shape
    from onnx_gs.analysis.shape_values import Fact
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
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Share in node order; a body also sees what is before its node."""
        for work in works(graph, report):
            if work.facts.has_symbolic_contents:
                _share(work, work.root, _Seen({}, {}, {}, set()))
                work.finish()


@dataclass
class _Seen:
    """What comes before a node: tensors by what they hold, by shape, and the ``Shape`` nodes' outputs by the shape they give whole."""

    values: dict[Any, Tensor]
    shapes: dict[Shape, Tensor]
    whole: dict[Shape, Tensor]
    noted: set[Fact]

    def inside(self) -> _Seen:
        """Give a copy for a body."""
        return _Seen(dict(self.values), dict(self.shapes), dict(self.whole), set(self.noted))

    def note(self, fact: Fact, t: Tensor) -> None:
        """Remember the first tensor of a shape with symbolic dims."""
        if fact.has_symbols and fact not in self.noted and len(self.shapes) < _MOST_SHAPES:
            self.noted.add(fact)
            self.shapes.setdefault(fact.shape, t)  # type: ignore[arg-type]


def _share(work: Work, owner: Graph, seen: _Seen) -> None:
    facts = work.facts
    for t in owner.inputs:
        seen.note(facts.known(t), t)
    for node in owner.nodes:
        if not node._outputs:
            continue
        if node._attrs and node.has_body:
            for body in walk.bodies(node):
                _share(work, body, seen.inside())
        t = node._outputs[0]
        held = facts.met(t).contents if len(node._outputs) == 1 and facts.met(t).is_symbolic else None
        if held is None or isinstance(t, Constant):
            for out in node._outputs:
                if out._name:
                    seen.note(facts.known(out), out)
            continue
        dtype = facts.dtype(t)
        key = (dtype.number if dtype else None, held)
        twin = seen.values.get(key)
        if twin is not None and work.can_replace(t, twin):
            work.report.rewrote(owner, node, f"the same as '{twin.name}' for every size")
            work.edit.replace(owner, node, [], [twin])
            continue
        if dtype is dtypes.INT64 and node.op != "Shape":
            if len(held.shape) == 1 and _as_shape(work, owner, node, held, seen):
                pass
            elif node.op != "Gather" and held.items and len(held.shape) <= 1:
                _as_gather(work, owner, node, held, seen)
        if node.op == "Shape" and len(held.items) == facts.rank(node._inputs[0]):
            seen.whole.setdefault(held.items, t)  # type: ignore[arg-type]
        seen.values.setdefault(key, t)


def _as_shape(work: Work, owner: Graph, node: Node, held: Contents, seen: _Seen) -> bool:
    wanted, count = held.items, len(held.items)
    for shape, t in seen.shapes.items():
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
            work.changed_op()
            return True
    return False


def _as_gather(work: Work, owner: Graph, node: Node, held: Contents, seen: _Seen) -> None:
    """Take dims that are not in a row from a shape that is computed anyway."""
    for shape, first in seen.whole.items():
        t = work.edit.current(first)  # an output of the graph may have taken its place
        if all(item in shape for item in held.items):
            at = np.array([shape.index(item) for item in held.items], np.int64).reshape(held.shape)
            work.report.rewrote(owner, node, f"dims of '{t._inputs[0]._inputs[0].name}'")
            node.op, node.domain, node.attrs = "Gather", None, {"axis": 0}
            node.inputs = [t, work.constant(f"{node._outputs[0].name}_indices", at)]
            work.changed_op()
            return
