"""Operators that hand their input on: ``Identity``, ``Dropout`` outside training, and n-ary operators of one operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node


@dataclass(frozen=True)
class EliminateIdentity(NodePass):
    """Let the readers of an ``Identity`` read its input.

    Matches:   ``ai.onnx::Identity``.
    Rewrites:  the node goes; where a graph returns its output, the producer of the input gives it.
    Declines:  the input is a graph input or returned as well, so that only an ``Identity`` can return it a second time.
    """

    name: ClassVar[str] = "eliminate-identity"
    ops: ClassVar[tuple[str, ...]] = ("Identity",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node."""
        work.bypass(owner, node, node._inputs[0])


@dataclass(frozen=True)
class EliminateDropout(NodePass):
    """Remove ``Dropout`` that is not in training mode.

    Matches:   ``ai.onnx::Dropout`` of opset 7 to 11; of opset 12 and later where ``training_mode`` is left out or a constant false; of opset 1
               and 6 where ``is_test`` is set.
    Rewrites:  as for ``Identity``.
    Declines:  the mask is used.
    """

    name: ClassVar[str] = "eliminate-dropout"
    ops: ClassVar[tuple[str, ...]] = ("Dropout",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node outside training."""
        if work.root.opset < 7 and not node.attrs.get("is_test", 0):
            return
        if len(node._inputs) > 2 and node._inputs[2]._name and not _is_false(node._inputs[2]):
            work.report.decline(owner, node, "it is, or may be, in training mode")
            return
        if len(node._outputs) > 1 and node._outputs[1]._name and work.edit.is_used(node._outputs[1]):
            work.report.decline(owner, node, "its mask is used")
            return
        work.bypass(owner, node, node._inputs[0])


def _is_false(tensor: object) -> bool:
    return isinstance(tensor, Constant) and tensor.values.size == 1 and not tensor.values.item()


@dataclass(frozen=True)
class EliminateSingleOperand(NodePass):
    """Remove n-ary operators that have one operand.

    Matches:   ``Sum``, ``Mean``, ``Max``, ``Min``, ``Concat`` of one input; ``Split`` into one output;
               ``Clip`` of integers without bounds (of floats it makes the largest number of infinity).
    Rewrites:  as for ``Identity``.
    Declines:  nothing.
    """

    name: ClassVar[str] = "eliminate-single-operand"
    ops: ClassVar[tuple[str, ...]] = ("Sum", "Mean", "Max", "Min", "Concat", "Split", "Clip")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node where it has one operand."""
        if node.op == "Split":
            if len(node._outputs) == 1:
                work.bypass(owner, node, node._inputs[0])
            return
        if any(t._name for t in list(node._inputs)[1:]):
            return
        if node.op == "Clip" and (work.root.opset < 11 or node.attrs or not _has_no_infinities(work, node)):
            return
        work.bypass(owner, node, node._inputs[0])


def _has_no_infinities(work: Work, node: Node) -> bool:
    dtype = work.facts.dtype(node._outputs[0])
    return dtype is not None and dtype.kind in {"int", "uint"}
