"""Arithmetic that changes nothing: x*1, x/1, x-0, x+0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node

_MOST_ELEMENTS = 1 << 16  # larger constants are not read for this
_RIGHT_ONLY = frozenset({"Div", "Sub"})


@dataclass(frozen=True)
class EliminateArithmetic(NodePass):
    """Remove multiplications and divisions by 1, additions and subtractions of 0, ``And`` with true and ``Or`` with false.

    Matches:   the operand is a constant with one value throughout, and the result has the shape of the other operand.
    Rewrites:  the readers read the other operand.
    Declines:  ``x + 0`` with ``keep_zero_sign``, as it makes +0 of -0; all other cases are exact to the last bit.

    Args:
        keep_zero_sign: keep what turns -0 into +0.
    """

    name: ClassVar[str] = "eliminate-arithmetic"
    ops: ClassVar[tuple[str, ...]] = ("Mul", "Div", "Add", "Sub", "And", "Or")
    keep_zero_sign: bool = False

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node where one operand is neutral."""
        a, b = node._inputs[0], node._inputs[1]
        for operand, other in ((b, a), (a, b)):
            if not isinstance(operand, Constant) or isinstance(other, Constant) or (operand is a and node.op in _RIGHT_ONLY):
                continue
            known = (id(operand), node.op)
            if known in work.plain or not _keeps_shape(work, node, operand, other):
                continue
            if not self._is_neutral(node.op, operand):
                work.plain[known] = operand
                continue
            if work.bypass(owner, node, other, f"the other operand is {'0' if node.op in {'Add', 'Sub'} else 'neutral'}", computes=True):
                return

    def _is_neutral(self, op: str, operand: Constant) -> bool:
        shape = operand.shape
        if not all(shape) or int(np.prod(shape, dtype=np.int64)) > _MOST_ELEMENTS:
            return False
        values = operand.values
        if values.dtype.kind in "OSU":
            return False
        wanted = {"Mul": 1, "Div": 1, "Add": 0, "Sub": 0, "And": True, "Or": False}[op]
        if values.ravel()[0] != values.dtype.type(wanted) or not bool((values == values.dtype.type(wanted)).all()):
            return False
        if op in {"Add", "Sub"} and self.keep_zero_sign and values.dtype.kind not in "iub":
            negative = np.signbit(values.astype(np.float32))
            return bool(negative.all()) if op == "Add" else not bool(negative.any())
        return True


def _keeps_shape(work: Work, node: Node, operand: Constant, other: Tensor) -> bool:
    if not operand.shape:
        return True
    before = work.facts.shape(other)
    if before is not None and len(operand.shape) <= len(before) and all(d == 1 for d in operand.shape):
        return True
    return before is not None and before == work.facts.shape(node._outputs[0])
