"""Inputs for a graph: seeded, of the declared types, in several sizes of what is not fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import EvaluationError
from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.types import ValueType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_gs.ir import Graph, Tensor

Array = np.ndarray[Any, Any]
#: Sizes that dims get which are not fixed, one for each variant; small, and different, so that no two are mixed up.
SIZES = (2, 3, 5, 4)
#: What hands indices on as they are.
_CARRIES = frozenset({"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice"})
_WORDS = ("a", "B", "Monday", "tuesday", "")


def make(
    graph: Graph, seed: int = 0, variant: int = 0, *, dims: Mapping[str, int] | None = None, given: Mapping[str, Any] | None = None,
    low: int = 0, high: int = 10,
) -> dict[str, Any]:  # fmt: skip
    """Give a value for every input of a graph.

    Floats are standard normal, integers from ``low`` up to ``high`` - 1, or to what a ``Gather`` of a smaller table takes, booleans mostly true,
    strings short words. One name of a dim has one size in all inputs.

    Args:
        graph: the graph.
        seed: another seed gives other numbers.
        variant: another variant gives other sizes of the dims that are not fixed.
        dims: sizes of dims by name.
        given: values of inputs by name, taken as they are.
        low: the least integer.
        high: one more than the largest integer.

    Raises:
        EvaluationError: an input has no type, or one that has no values to make up.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> make(Graph(inputs=[Variable("x", np.float32, ("n", 3))]), variant=1)["x"].shape
        (3, 3)
    """
    rng = np.random.default_rng(seed)
    sizes: dict[str, int] = dict(dims or {})
    found: dict[str, Any] = {}
    for t in graph.inputs:
        if isinstance(t, Constant):
            continue
        if given is not None and t.name in given:
            found[t.name] = given[t.name]
            continue
        kind = getattr(t, "value_type", None) or ValueType("tensor_type", t.dtype, t.shape)
        found[t.name] = value_of(kind, t, rng, sizes, variant, (low, max(low + 1, min(high, _rows(t)))))
    return found


def _rows(t: Tensor) -> int:
    """Give how many rows the smallest table has that an input of integers is an index of; a large number where it is none."""
    known = dtypes.of(t)
    least = 1 << 31
    if known is None or known.kind not in {"int", "uint"}:
        return least
    pending, seen = [t], {id(t)}
    while pending:
        current = pending.pop()
        for node in current.outputs:
            if not node.is_onnx or not node.outputs:
                continue
            table = node.inputs[0]
            if node.op == "Gather" and table is not current and table.shape:
                axis = node.attrs.get("axis", 0)
                size = table.shape[axis] if isinstance(axis, int) else None
                if is_static_dim(size) and int(size) > 0:
                    least = min(least, int(size))
            elif node.op in _CARRIES and table is current and id(node.outputs[0]) not in seen:
                seen.add(id(node.outputs[0]))
                pending.append(node.outputs[0])
    return least


def value_of(
    kind: ValueType, tensor: Tensor, rng: np.random.Generator, sizes: dict[str, int], variant: int, bounds: tuple[int, int] = (0, 10)
) -> Any:
    """Make up a value of a type.

    Raises:
        EvaluationError: nothing can be made up for the type.
    """
    if kind.kind in {"tensor_type", "sparse_tensor_type"}:
        shape = [_size(d, f"{tensor.name}#{k}", sizes, variant) for k, d in enumerate(kind.shape if kind.shape is not None else ())]
        known = dtypes.find(kind.dtype)
        if known is None:
            raise EvaluationError(f"input '{tensor.name}' has no element type", fix="set its dtype, or give a value for it")
        return _array(known, shape, rng, bounds)
    if kind.kind == "sequence_type" and kind.element is not None:
        return [value_of(kind.element, tensor, rng, sizes, variant, bounds) for _ in range(SIZES[variant % len(SIZES)])]
    if kind.kind == "optional_type" and kind.element is not None:
        return value_of(kind.element, tensor, rng, sizes, variant, bounds)
    if kind.kind == "map_type" and kind.element is not None:
        known = dtypes.find(kind.dtype)
        keys: Sequence[Any] = _WORDS[:2] if known is dtypes.STRING else (0, 1)
        leaf = dtypes.find(kind.element.dtype)
        floats = leaf is None or leaf.kind == "float"
        return {k: float(rng.standard_normal()) if floats else int(rng.integers(*bounds)) for k in keys}
    raise EvaluationError(f"input '{tensor.name}' has type {kind}, for which no values can be made up", fix="give a value for it")


def _size(dim: Any, place: str, sizes: dict[str, int], variant: int) -> int:
    if is_static_dim(dim):
        return int(dim)
    name = dim if isinstance(dim, str) and dim else place
    return sizes.setdefault(name, SIZES[variant % len(SIZES)])


def _array(known: dtypes.DataType, shape: Sequence[int], rng: np.random.Generator, bounds: tuple[int, int]) -> Array:
    if known is dtypes.STRING:
        found = np.empty(tuple(shape), object)
        found[...] = rng.choice(np.array(_WORDS, object), size=tuple(shape)) if found.ndim else str(rng.choice(_WORDS))
        return found
    if known is dtypes.BOOL:
        return np.asarray(rng.random(shape) < 0.7)
    if known.kind in {"int", "uint"}:
        low, high = bounds
        if known.bits < 8:
            low, high = (0 if known.kind == "uint" else -1), 2
        return np.asarray(rng.integers(max(low, 0) if known.kind == "uint" else low, high, shape)).astype(known.numpy)
    if known.kind == "complex":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(known.numpy)
    drawn = np.asarray(rng.standard_normal(shape)).astype(np.float32)
    return (np.abs(drawn) if known is dtypes.FLOAT8E8M0 else drawn).astype(known.numpy)  # a scale has no sign
