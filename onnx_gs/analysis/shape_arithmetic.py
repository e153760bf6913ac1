"""Contents of shape tensors: element-by-element operators, and those that move elements about, over expressions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.dim_expr import Expr, TooLarge
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir.dtypes import DataType

Item = Union[int, bool, float, Expr, None]

#: Contents of more elements than this are not followed.
MAX_ITEMS = 128


class Contents(NamedTuple):
    """What a small tensor holds.

    Attributes:
        shape: its dims, all known.
        items: the elements in row-major order: numbers, expressions, or None for one that is not known.
    """

    shape: tuple[int, ...]
    items: tuple[Item, ...]

    @property
    def is_known(self) -> bool:
        """Say whether every element is a number."""
        return all(type(i) in {int, bool, float} for i in self.items)


_RANGES = {
    "INT64": (-(2**63), 2**63 - 1), "INT32": (-(2**31), 2**31 - 1), "INT16": (-(2**15), 2**15 - 1), "INT8": (-128, 127),
    "UINT8": (0, 255), "UINT16": (0, 2**16 - 1), "UINT32": (0, 2**32 - 1), "UINT64": (0, 2**64 - 1),
}  # fmt: skip
_EXACT_FLOATS = {"FLOAT": 2**24, "DOUBLE": 2**53, "FLOAT16": 2**11, "BFLOAT16": 2**8}


def fits(item: Item, dtype: DataType | None) -> Item:
    """Give the item where it is a value of an integer type; None where it would, or for some sizes might, wrap around, or the type is none.

    Signed types of 32 bits and more hold every size, and what is made of sizes, that a model meets.
    """
    if type(item) is int:
        limits = _RANGES.get(dtype.name) if dtype is not None else None
        return item if limits is not None and limits[0] <= item <= limits[1] else None
    if isinstance(item, Expr) and dtype is not None and (dtype.kind == "uint" or dtype.bits < 32):
        limits = _RANGES.get(dtype.name)
        low, high = dim_expr.bounds(item)
        if limits is None or low is None or low < limits[0] or (dtype.bits < 32 and (high is None or high > limits[1])):
            return None
    return item


def spread(a: Contents, b: Contents) -> tuple[tuple[int, ...], tuple[Item, ...], tuple[Item, ...]] | None:
    """Broadcast two contents against each other."""
    if a.shape == b.shape:
        return a.shape, a.items, b.items
    if not a.shape and b.items:
        return b.shape, a.items * len(b.items), b.items
    if not b.shape and a.items:
        return a.shape, a.items, b.items * len(a.items)
    first, second = grid(a), grid(b)
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        return None
    if math.prod(shape) > MAX_ITEMS:
        return None
    return shape, tuple(np.broadcast_to(first, shape).ravel().tolist()), tuple(np.broadcast_to(second, shape).ravel().tolist())


def grid(contents: Contents) -> np.ndarray[Any, Any]:
    """Give contents as an array of objects."""
    out = np.empty(len(contents.items), dtype=object)
    for i, item in enumerate(contents.items):
        out[i] = item
    return out.reshape(contents.shape)


def ungrid(array: np.ndarray[Any, Any]) -> Contents:
    """Give the contents of an array of objects."""
    return Contents(tuple(array.shape), tuple(array.ravel().tolist()))


def binary(op: str, a: Contents, b: Contents, dtype: DataType | None) -> Contents | None:
    """Apply a binary operator on integers or booleans; ``dtype`` is the result's type."""
    function = BINARY.get(op)
    spreading = spread(a, b) if function is not None else None
    if function is None or spreading is None:
        return None
    shape, first, second = spreading
    out = []
    for x, y in zip(first, second):
        out.append(fits(_applied(function, x, y), dtype) if type(x) is not float and type(y) is not float else None)
    return Contents(shape, tuple(out))


def _applied(function: Callable[[Any, Any], Any], x: Item, y: Item) -> Item:
    try:
        found: Item = function(x, y)
    except (TooLarge, TypeError, OverflowError):
        return None
    return found


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: None if x is None or y is None else function(x, y)


def _mul(x: Item, y: Item) -> Item:
    if (type(x) is int and x == 0) or (type(y) is int and y == 0):
        return 0
    return None if x is None or y is None else x * y  # type: ignore[operator]


def _and(x: Item, y: Item) -> Item:
    if x is False or y is False:
        return False
    return True if x is True and y is True else None


def _or(x: Item, y: Item) -> Item:
    if x is True or y is True:
        return True
    return False if x is False and y is False else None


def _xor(x: Item, y: Item) -> Item:
    return x is not y if isinstance(x, bool) and isinstance(y, bool) else None


def _equal(x: Item, y: Item) -> Item:
    if x is None or y is None:
        return None
    if isinstance(x, bool) or isinstance(y, bool):
        return x is y if isinstance(x, bool) and isinstance(y, bool) else None
    return dim_expr.equal(x, y)  # type: ignore[arg-type]


def _not(x: Item) -> Item:
    return not x if isinstance(x, bool) else None


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": _arithmetic(lambda x, y: x + y),
    "Sub": _arithmetic(lambda x, y: x - y),
    "Mul": _mul,
    "Div": _arithmetic(dim_expr.truncdiv),
    "Mod": _arithmetic(dim_expr.mod),
    "Min": _arithmetic(dim_expr.minimum),
    "Max": _arithmetic(dim_expr.maximum),
    "Equal": _equal,
    "Less": _arithmetic(dim_expr.less),
    "Greater": _arithmetic(lambda x, y: dim_expr.less(y, x)),
    "LessOrEqual": _arithmetic(lambda x, y: _not(dim_expr.less(y, x))),
    "GreaterOrEqual": _arithmetic(lambda x, y: _not(dim_expr.less(x, y))),
    "And": _and,
    "Or": _or,
    "Xor": _xor,
}
COMPARISONS = frozenset({"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor"})


def unary(op: str, a: Contents, dtype: DataType | None) -> Contents | None:
    """Apply ``Not``, ``Neg``, ``Abs`` or ``Sign`` element by element."""
    function = UNARY.get(op)
    if function is None:
        return None
    return Contents(a.shape, tuple(None if i is None or type(i) is float else fits(function(i), dtype) for i in a.items))


def _abs(x: int | Expr) -> Item:
    if isinstance(x, Expr):
        return x if dim_expr.is_at_least(x, 0) else None
    return abs(x)


def _sign(x: int | Expr) -> Item:
    if isinstance(x, Expr):
        return 1 if dim_expr.is_at_least(x, 1) else None
    return (x > 0) - (x < 0)


UNARY: dict[str, Callable[[Any], Item]] = {"Not": _not, "Neg": lambda x: -x, "Abs": _abs, "Sign": _sign}


def cast(a: Contents, to: DataType) -> Contents | None:
    """Convert contents to another type, where that is exact."""
    return Contents(a.shape, tuple(_cast(i, to) for i in a.items))


def _cast(item: Item, to: DataType) -> Item:
    if item is None:
        return None
    if to is dtypes.BOOL:
        if isinstance(item, Expr):
            same = dim_expr.equal(item, 0)
            return None if same is None else not same
        return item != 0  # NaN is true, as in C
    if to.kind in {"int", "uint"}:
        if isinstance(item, float):
            return fits(int(item), to) if math.isfinite(item) else None
        return fits(int(item) if isinstance(item, bool) else item, to)
    limit = _EXACT_FLOATS.get(to.name)
    if limit is None or isinstance(item, Expr):
        return None
    if isinstance(item, float):
        return float(item) if to is dtypes.DOUBLE else None
    return float(item) if abs(item) <= limit else None


def where(condition: Contents, x: Contents, y: Contents) -> Contents | None:
    """Choose element by element."""
    both = spread(x, y)
    if both is None:
        return None
    picked = spread(condition, Contents(both[0], both[1]))
    other = spread(condition, Contents(both[0], both[2]))
    if picked is None or other is None or picked[0] != other[0]:
        return None
    items = tuple(
        a if c is True else b if c is False else a if a is not None and a == b and type(a) is type(b) else None
        for c, a, b in zip(picked[1], picked[2], other[2])
    )
    return Contents(picked[0], items)


def reduce(op: str, a: Contents, axes: list[int] | None, keepdims: bool, dtype: DataType | None) -> Contents | None:
    """Reduce by ``ReduceProd``, ``ReduceSum``, ``ReduceMin`` or ``ReduceMax``."""
    function = {"ReduceProd": BINARY["Mul"], "ReduceSum": BINARY["Add"], "ReduceMin": BINARY["Min"], "ReduceMax": BINARY["Max"]}.get(op)
    if function is None or any(type(i) is float for i in a.items):
        return None
    array = grid(a)
    rank = array.ndim
    chosen = set(range(rank)) if axes is None else {x % rank for x in axes} if rank else set()
    kept = [d for d in range(rank) if d not in chosen]
    rows = array.transpose([*kept, *sorted(chosen)]).reshape([array.shape[d] for d in kept] + [-1] if chosen or not rank else (*array.shape, 1))
    flat = rows.reshape(-1, rows.shape[-1])
    if flat.shape[-1] == 0:
        return None
    items: list[Item] = []
    for row in flat.tolist():
        total = row[0]
        for item in row[1:]:
            total = _applied(function, total, item)
        items.append(fits(total, dtype))
    shape = tuple(1 if d in chosen else array.shape[d] for d in range(rank) if keepdims or d not in chosen)
    return Contents(shape, tuple(items))
