"""May a node run where it did not before? Whether it could fail, and whether it is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis import constness
from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static, is_static_dim, volume
from onnx_gs.ops import traits

if TYPE_CHECKING:
    from onnx_gs.ir import Node

#: Moves of data that cannot fail once their inputs have the shapes that inference accepted.
_SAFE_MOVES = frozenset({
    "Identity", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Concat", "Slice", "Shape", "Size", "Constant", "Cast", "Expand",
})  # fmt: skip
_SMALL = 1 << 16
_NEEDS_CONSTANT = {"Unsqueeze": 1, "Squeeze": 1, "Expand": 1}


def hazard(node: Node, opset: int) -> str:
    """Tell why a node should not run where its result may not be needed; empty where it may.

    Args:
        node: a node of a branch or body.
        opset: version of ONNX's own operators.

    Example:
        >>> from onnx_gs.ir import Node
        >>> hazard(Node("Neg"), 18), hazard(Node("MatMul"), 18)
        ('', "'MatMul' is costly")
    """
    if not node.is_onnx:
        return f"'{node.domain}::{node.op}' may do anything"
    if traits.is_random(node):
        return f"'{node.op}' is random"
    if node.op in traits.DIVIDING:
        return _division(node)
    if node.op == "Gather":
        return _gather(node)
    if node.op == "Cast" and (dtypes.of(node.inputs[0]) is dtypes.STRING or node.attrs.get("to") == dtypes.STRING.number):
        return "'Cast' of strings may fail"
    if node.op in _NEEDS_CONSTANT and len(node.inputs) > 1 and not constness.is_constant(node.inputs[1]):
        return f"'{node.op}' with computed arguments may fail"
    if node.op == "Slice" and opset >= 10 and any(not constness.is_constant(t) for t in list(node.inputs)[3:] if t.name):
        return "'Slice' with computed axes may fail"
    if node.op in _SAFE_MOVES or node.op in traits.ELEMENTWISE:
        return ""
    if node.op.startswith("Reduce") and _small_reduce(node):
        return ""
    return f"'{node.op}' is costly" if node.op in traits.REDUCING else f"'{node.op}' may fail or is costly"


def _division(node: Node) -> str:
    known = dtypes.of(node.inputs[1])
    if known is not None and known.kind == "float":
        return ""
    divisor = constness.array(node.inputs[1], 1 << 12)
    if divisor is not None and (divisor != 0).all():
        return ""
    return f"'{node.op}' of integers may divide by zero"


def _gather(node: Node) -> str:
    shape, index = node.inputs[0].shape, constness.array(node.inputs[1], 1 << 12)
    axis = int(node.attrs.get("axis", 0))
    if shape is None or index is None or not -len(shape) <= axis < len(shape) or not is_static_dim(shape[axis]):
        return "'Gather' may be out of range"
    size = int(shape[axis])
    if index.size and (int(index.min()) < -size or int(index.max()) >= size):
        return "'Gather' is out of range"
    return ""


def _small_reduce(node: Node) -> bool:
    """Say whether a reduction goes over few elements, and some, along axes that are known."""
    shape = node.inputs[0].shape
    if not is_static(shape) or not 0 < volume(shape) <= _SMALL:
        return False
    return len(node.inputs) < 2 or not node.inputs[1].name or constness.is_constant(node.inputs[1])
