"""Operators that move nothing here: Pad by 0, Expand and Resize to the same shape, Tile once, Concat with empty parts, reductions over no axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis.shape_functions import broadcast
from onnx_gs.ops import traits
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node


@dataclass(frozen=True)
class EliminatePads(NodePass):
    """Remove padding by nothing.

    Matches:   ``ai.onnx::Pad`` whose amounts are all 0.
    Rewrites:  the readers read the input.
    Declines:  the amounts are not known.
    """

    name: ClassVar[str] = "eliminate-pads"
    ops: ClassVar[tuple[str, ...]] = ("Pad",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node where it pads nothing."""
        if "pads" in node.attrs:
            amounts = tuple(node.attrs["pads"])
        else:
            found = work.facts.integers(node._inputs[1]) if len(node._inputs) > 1 else None
            if found is None:
                return
            amounts = found
        if not any(amounts):
            work.bypass(owner, node, node._inputs[0], "it pads nothing")


@dataclass(frozen=True)
class EliminateSameShape(NodePass):
    """Remove ``Expand``, ``Tile`` and ``Resize`` whose output has the shape of the input.

    Matches:   the shapes are equal for every size of the symbolic dims. ``Tile`` that keeps a shape without empty dims repeats once.
    Rewrites:  the readers read the input.
    Declines:  ``Resize`` that crops, or whose scales are given and not all exactly 1.
    """

    name: ClassVar[str] = "eliminate-same-shape"
    ops: ClassVar[tuple[str, ...]] = ("Expand", "Tile", "Resize", "Upsample")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node where the shape stays."""
        x = node._inputs[0]
        shape = work.facts.shape(x)
        if shape is None or shape != work.facts.shape(node._outputs[0]):
            return
        if node.op in {"Resize", "Upsample"} and not _copies(work, node):
            return
        work.bypass(owner, node, x, "the shape stays")


def _copies(work: Work, node: Node) -> bool:
    """Say whether a ``Resize`` to the same shape hands the elements on as they are."""
    mode = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    if mode in {"tf_crop_and_resize", b"tf_crop_and_resize"}:
        return False
    if "scales" in node.attrs:
        return all(s == 1 for s in node.attrs["scales"])
    inputs = node._inputs
    if len(inputs) > 3 and inputs[3]._name:
        return True  # sizes equal to the input's give scales of exactly 1
    at = 2 if node.op == "Resize" and len(inputs) > 2 else 1
    scales = work.facts.floats(inputs[at]) if len(inputs) > at else None
    return scales is not None and all(s == 1 for s in scales)


@dataclass(frozen=True)
class EliminateEmptyParts(NodePass):
    """Drop operands of ``Concat`` that have no elements along its axis.

    Matches:   ``ai.onnx::Concat`` with an operand whose dim on the axis is 0 for every size, beside others.
    Rewrites:  the operand goes.
    Declines:  nothing.
    """

    name: ClassVar[str] = "eliminate-empty-parts"
    ops: ClassVar[tuple[str, ...]] = ("Concat",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Keep the operands that have elements."""
        inputs = list(node._inputs)
        axis = int(node.attrs.get("axis", 1))
        shapes = [work.facts.shape(t) for t in inputs]
        empty = [s is not None and len(s) > 0 and s[axis % len(s)] == 0 for s in shapes]
        if not any(empty) or all(empty):
            return
        work.report.rewrote(owner, node, "without its empty operands")
        node.inputs = [t for t, gone in zip(inputs, empty) if not gone]


@dataclass(frozen=True)
class EliminateBroadcasts(NodePass):
    """Remove an ``Expand`` whose only reader would broadcast to the same shape by itself.

    Matches:   ``ai.onnx::Expand`` read once, by an element-by-element operator that broadcasts, where the other operands already have the result's
               shape.
    Rewrites:  the operator reads the input of the ``Expand``.
    Declines:  the shape would be another for some size.
    """

    name: ClassVar[str] = "eliminate-broadcasts"
    ops: ClassVar[tuple[str, ...]] = ("Expand",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Let the readers broadcast, where all of them can."""
        x, y = node._inputs[0], node._outputs[0]
        if work.edit.listed_by(y) or not y._outputs:
            return
        before = work.facts.shape(x)
        readers = list(y._outputs)
        if before is None or not all(self._broadcasts(work, reader, node) for reader in readers):
            return
        work.bypass(owner, node, x, "its readers broadcast by themselves")

    def _broadcasts(self, work: Work, reader: Node, node: Node) -> bool:
        if not reader.is_onnx or reader.op not in traits.BROADCASTING or reader.op in {"PRelu", "Clip"} or work.root.opset < 8:
            return False
        x, y = node._inputs[0], node._outputs[0]
        if reader.op == "Pow" and reader._inputs[1] is y:
            return False  # runtimes compute powers by one number otherwise, with other last digits
        after = work.facts.shape(reader._outputs[0])
        if after is None:
            return False
        shape = work.facts.shape(x)
        for t in reader._inputs:
            if t is not y:
                shape = broadcast(work.facts, shape, work.facts.shape(t))
        return shape == after and work.facts.shape(y) is not None
