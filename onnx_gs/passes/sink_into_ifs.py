"""A view of what an If gives moves into its branches where it merges with what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.ir.node import Node
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph
    from onnx_gs.ir.tensor import Tensor

_BRANCHES = ("then_branch", "else_branch")


@dataclass(frozen=True)
class SinkIntoIfs(NodePass):
    """Let the branches of an ``If`` unsqueeze what they return, where that costs no node.

    Matches:   ``Unsqueeze`` with constant axes, counted from the front, of an output of an ``If`` that nothing else reads, where each branch returns
               it from an ``Identity`` or from another such ``Unsqueeze``.
    Rewrites:  these two become the one ``Unsqueeze``; the one behind the ``If`` goes.
    Declines:  another operator gives the output in one of the branches.
    """

    name: ClassVar[str] = "sink-into-ifs"
    needs: ClassVar[frozenset[str]] = frozenset({"If"})
    ops: ClassVar[tuple[str, ...]] = ("Unsqueeze",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Move the node into the branches."""
        x, y = node._inputs[0], node._outputs[0]
        choice = work.producer(x, "If")
        axes = _axes(node)
        if choice is None or axes is None or work.root.opset < 13 or not work.is_private(x) or work.edit.holder.get(id(choice)) is not owner:
            return
        at = next(i for i, t in enumerate(choice._outputs) if t is x)
        plans: list[tuple[Graph, Node, Tensor, list[int]]] = []
        for branch in _BRANCHES:
            body: Graph = choice.attrs[branch]
            returned = body.outputs[at]
            producer = work.producer(returned, "Identity", "Unsqueeze")
            if producer is None or returned._outputs or work.edit.holder.get(id(producer)) is not body:
                return
            if sum(t is returned for t in body.outputs) != 1:
                return
            first = [] if producer.op == "Identity" else _axes(producer)
            if first is None:
                return
            plans.append((body, producer, returned, _both(first, axes)))
        work.report.rewrote(owner, node, f"the branches of '{choice.name or 'If'}' do it")
        for body, producer, returned, merged in plans:
            out = Variable(work.edit.names.fresh(returned.name), y.dtype, None)
            new = Node("Unsqueeze", producer.name, None, [producer._inputs[0], work.int64(f"{returned.name}_axes", merged)], [out])
            work.edit.insert_before(body, producer, [new])
            work.edit.set_outputs(body, [out if t is returned else t for t in body.outputs])
            work.edit.remove(body, producer)
        work.edit.remove(owner, node)
        choice._outputs[at] = y


def _axes(node: Node) -> list[int] | None:
    if len(node._inputs) < 2 or not isinstance(node._inputs[1], Constant):
        return None
    found = [int(a) for a in np.asarray(node._inputs[1].values).ravel()]
    return found if all(a >= 0 for a in found) else None


def _both(first: list[int], second: list[int]) -> list[int]:
    """Give the axes of one ``Unsqueeze`` that does what two in a row do."""
    added = set(second)
    kept = [i for i in range(len(second) + max(first, default=0) + 1) if i not in added]
    return sorted([*added, *(kept[a] for a in first)])
