"""May a node run where it did not before? Whether it could fail, and whether it is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis import constness
from onnx_gs.analysis.loops import surely_same
from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static, is_static_dim, volume
from onnx_gs.ops import traits

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onnx_gs.ir import Node, Tensor

#: Moves of data that cannot fail once their inputs have the shapes that inference accepted.
_SAFE_MOVES = frozenset({
    "Identity", "Unsqueeze", "Transpose", "Flatten", "Slice", "Shape", "Size", "Constant", "Cast",
})  # fmt: skip
_SMALL = 1 << 16
_NEEDS_CONSTANT = {"Unsqueeze": 1}


def hazard(node: Node, opset: int, trusted: set[str] | frozenset[str] = frozenset()) -> str:
    """Tell why a node should not run where its result may not be needed; empty where it may.

    A branch may be guarded by the very condition that its shapes fit, so operands have to fit whatever the sizes are.

    Args:
        node: a node of a branch or body, with its types inferred.
        opset: version of ONNX's own operators.
        trusted: symbolic dims that mean one size, see ``loops.trusted_symbols``.

    Example:
        >>> from onnx_gs.ir import Node, Variable
        >>> hazard(Node("Neg"), 18), hazard(Node("MatMul"), 18)
        ('', "'MatMul' is costly")
        >>> hazard(Node("Add", inputs=[Variable("a", "float32", ["n"]), Variable("b", "float32", ["m"])]), 18)
        "the operands of 'Add' may not fit"
    """
    if not node.is_onnx:
        return f"'{node.domain}::{node.op}' may do anything"
    if traits.is_random(node):
        return f"'{node.op}' is random"
    if node.op in traits.DIVIDING and _division(node):
        return _division(node)
    if node.op in traits.BROADCASTING:
        return "" if _fit(list(node.inputs), trusted) else f"the operands of '{node.op}' may not fit"
    if node.op == "Concat":
        return "" if _join(node, trusted) else "the parts of 'Concat' may not fit"
    if node.op == "Squeeze":
        return "" if _squeezes(node) else "'Squeeze' of a dim that may not be 1"
    if node.op == "Expand":
        return "" if _expands(node) else "'Expand' may not fit"
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


def _fit(operands: Sequence[Tensor], trusted: Collection[str]) -> bool:
    """Say whether operands broadcast whatever the sizes are."""
    given = [t for t in operands if t.name]
    sources = {id(_shape_source(t)): t for t in given if not _is_scalar(t)}
    if len(sources) <= 1:
        return True
    shapes = [t.shape for t in sources.values()]
    if any(s is None for s in shapes):
        return False
    rank = max(len(s) for s in shapes)
    for axis in range(1, rank + 1):
        dims = [s[-axis] for s in shapes if len(s) >= axis and not (is_static_dim(s[-axis]) and int(s[-axis]) == 1)]
        if any(not surely_same(dims[0], d, set(trusted)) for d in dims[1:]):
            return False
    return True


def _is_scalar(t: Tensor) -> bool:
    return t.shape is not None and all(is_static_dim(d) and int(d) == 1 for d in t.shape)


def _shape_source(t: Tensor) -> Tensor:
    """Follow a tensor to one that surely has its shape: through elementwise operators of one operand that is no scalar."""
    for _ in range(100):
        node = t.inputs[0] if len(t.inputs) == 1 and t.inputs[0].is_onnx else None
        if node is None or node.op not in traits.ELEMENTWISE:
            return t
        wide = [x for x in node.inputs if x.name and not (_is_scalar(x) and constness.is_constant(x) and x.shape is not None and len(x.shape) == 0)]
        if len(wide) != 1:
            return t
        t = wide[0]
    return t


def _join(node: Node, trusted: Collection[str]) -> bool:
    shapes = [t.shape for t in node.inputs]
    if len(shapes) == 1:
        return True
    if any(s is None or len(s) != len(shapes[0] or ()) for s in shapes):
        return False
    axis = int(node.attrs["axis"]) % len(shapes[0])
    return all(surely_same(a, b, set(trusted)) for s in shapes[1:] for k, (a, b) in enumerate(zip(shapes[0], s)) if k != axis)


def _squeezes(node: Node) -> bool:
    shape = node.inputs[0].shape
    given = node.attrs.get("axes")
    if len(node.inputs) > 1 and node.inputs[1].name:
        given = constness.vector(node.inputs[1])
        if given is None:
            return False
    if shape is None:
        return False
    if given is None:
        return is_static(shape)
    return all(-len(shape) <= a < len(shape) and is_static_dim(shape[a]) and int(shape[a]) == 1 for a in given)


def _expands(node: Node) -> bool:
    shape, target = node.inputs[0].shape, constness.vector(node.inputs[1])
    if shape is None or target is None:
        return False
    pairs = zip(reversed(list(shape)), reversed(target))
    return all(is_static_dim(d) and (int(d) == 1 or int(t) in {1, int(d)}) for d, t in pairs)


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
