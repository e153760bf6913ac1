"""Slices that cut a tensor up into all its parts become one Split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis.shape_functions import clamped, slice_parts
from onnx_gs.ir.node import Node
from onnx_gs.ir.tensor import Variable
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir import Graph


@dataclass(frozen=True)
class SlicesToSplit(Pass):
    """Make one ``Split`` of the slices that together take a whole tensor, part by part.

    Matches:   two or more ``Slice`` of one tensor, in one graph, with step 1 on the same axis of known size, which neither overlap nor leave a gap.
    Rewrites:  one ``Split`` with their sizes.
    Declines:  a slice whose part is returned by the graph under a name that the new node cannot give.
    """

    name: ClassVar[str] = "slices-to-split"
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Look at the slices of each tensor together."""
        for work in works(graph, report):
            groups: dict[tuple[int, int, int], list[tuple[int, int, Node]]] = {}
            for owner, node in work.nodes(("Slice",)):
                cut = _single_cut(work.facts, node)
                if cut is not None:
                    axis, start, end = cut
                    groups.setdefault((id(node._inputs[0]), id(owner), axis), []).append((start, end, node))
            for (_, _, axis), cuts in groups.items():
                if len(cuts) > 1:
                    _split(work, axis, cuts)
            work.finish()


def _single_cut(facts: ShapeFacts, node: Node) -> tuple[int, int, int] | None:
    """Give axis, start and end of a slice that cuts one axis of known size."""
    dims = facts.shape(node._inputs[0])
    parts = slice_parts(facts, node)
    if dims is None or parts is None:
        return None
    found = None
    for start, end, axis, step in zip(*parts):
        size = dims[axis % len(dims)]
        first, last = clamped(start, size), clamped(end, size)
        if type(step) is not int or step != 1 or first is None or last is None:
            return None
        if first == 0 and last == size:
            continue
        if found is not None or not (isinstance(first, int) and isinstance(last, int) and isinstance(size, int)):
            return None
        found = (axis % len(dims), first, last)
    return found


def _split(work: Work, axis: int, cuts: list[tuple[int, int, Node]]) -> None:
    order = sorted(cuts, key=lambda cut: cut[:2])
    x = order[0][2]._inputs[0]
    dims = work.facts.shape(x)
    at = 0
    for start, end, _ in order:
        if start != at or end <= start:
            return
        at = end
    if dims is None or dims[axis] != at:
        return
    nodes = [node for _, _, node in order]
    if any(work.edit.listed_by(node._outputs[0]) and work.edit.holder[id(node)] is not work.root for node in nodes):
        return
    first = cuts[0][2]  # in node order: the parts are needed after the first slice only
    owner = work.edit.holder[id(first)]
    sizes = [end - start for start, end, _ in order]
    outputs = [Variable(work.edit.names.fresh(f"{node._outputs[0].name}_part"), node._outputs[0].dtype, node._outputs[0].shape) for node in nodes]
    attrs: dict[str, Any] = {"axis": axis}
    inputs = [x]
    if work.root.opset >= 13:
        inputs.append(work.int64(f"{x.name}_split", sizes))
    else:
        attrs["split"] = sizes
    split = Node("Split", work.edit.names.fresh(f"{x.name}_split"), attrs, inputs, outputs)
    for node in nodes:
        work.report.rewrote(owner, node, f"a part of a Split of '{x.name}'")
    work.edit.insert_before(owner, first, [split])
    for node, part in zip(nodes, outputs):
        work.edit.replace(owner, node, [], [part])
