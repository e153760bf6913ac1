"""Dims and shapes: what is static, how much it holds, what broadcasting gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from onnx_gs.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

Dim = int | str | None


def is_static_dim(dim: Any) -> TypeGuard[int]:
    """Say whether a dim is a known size: an integer of at least 0, numpy's included."""
    return isinstance(dim, (int, np.integer)) and not isinstance(dim, (bool, np.bool_)) and bool(dim >= 0)


def is_static(shape: Sequence[Any] | None) -> bool:
    """Say whether the rank and every dim are known."""
    return shape is not None and all(is_static_dim(d) for d in shape)


def volume(shape: Sequence[int]) -> int:
    """Count the elements of a static shape; 1 for a scalar."""
    return math.prod(int(d) for d in shape)


def same_dim(a: Any, b: Any) -> bool:
    """Say whether two dims are surely equal: equal sizes, or one and the same non-empty symbol."""
    if is_static_dim(a) and is_static_dim(b):
        return int(a) == int(b)
    return isinstance(a, str) and a == b and a != ""


def same_shape(a: Sequence[Any] | None, b: Sequence[Any] | None) -> bool:
    """Say whether two shapes are surely equal; unknown dims are equal to nothing."""
    return a is not None and b is not None and len(a) == len(b) and all(map(same_dim, a, b))


def broadcast(a: Sequence[Dim], b: Sequence[Dim]) -> list[Dim]:
    """Give the shape that numpy-style broadcasting makes of two shapes, None for a dim that cannot be known.

    Raises:
        GraphError: two static dims differ and neither is 1.

    Example:
        >>> broadcast([2, 1, "n"], [3, 1])
        [2, 3, 'n']
    """
    rank = max(len(a), len(b))
    out: list[Dim] = []
    for x, y in zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)):
        if same_dim(x, y):
            out.append(x)
        elif is_static_dim(x) and int(x) == 1:
            out.append(y)
        elif is_static_dim(y) and int(y) == 1:
            out.append(x)
        elif is_static_dim(x) and is_static_dim(y):
            raise GraphError(f"shapes {list(a)} and {list(b)} do not broadcast")
        elif is_static_dim(x):
            out.append(x)
        elif is_static_dim(y):
            out.append(y)
        else:
            out.append(None)
    return out
