"""Exact kernels for operators on sequences, in this process: they only move tensors in and out of lists.

A kernel takes a node and its inputs, a list for a sequence, and gives its output, or ``None`` where ONNX Runtime may refuse the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx_gs.ir import Node

_Kernel = Callable[["Node", Sequence[Any]], Any]
_KERNELS: dict[str, _Kernel] = {}


def handles(op: str) -> bool:
    """Say whether there is a kernel for an operator of ONNX's own domain; it may still decline."""
    return op in _KERNELS


def evaluate(node: Node, inputs: Sequence[Any]) -> list[Any] | None:
    """Compute a node of ONNX's own domain.

    Args:
        node: the node.
        inputs: an array for a tensor, a list of arrays for a sequence, None for an omitted input.

    Returns:
        The only output in a list; None where a session has to compute it.

    Example:
        >>> from onnx_gs.ir import Node
        >>> [rows] = evaluate(Node("SplitToSequence", attrs={"keepdims": 0}), [np.arange(4).reshape(2, 2)])
        >>> [row.tolist() for row in rows]
        [[0, 1], [2, 3]]
    """
    try:
        found = _KERNELS[node.op](node, inputs)
    except (ValueError, TypeError, IndexError, AttributeError):  # what numpy refuses, a session refuses better
        return None
    return None if found is None else [found]


def _kernel(op: str) -> Callable[[_Kernel], _Kernel]:
    def note(function: _Kernel) -> _Kernel:
        _KERNELS[op] = function
        return function

    return note


def _position(value: Any, least: int, most: int) -> int:
    at = int(value.item())
    if not least <= at <= most:
        raise IndexError("position out of range")
    return at


def _input(inputs: Sequence[Any], at: int) -> Any:
    return inputs[at] if len(inputs) > at else None


@_kernel("SplitToSequence")
def _split(node: Node, inputs: Sequence[Any]) -> Any:
    x, split = inputs[0], _input(inputs, 1)
    axis, keeps = int(node.attrs.get("axis", 0)), int(node.attrs.get("keepdims", 1))
    if not -x.ndim <= axis < x.ndim:
        return None
    extent = x.shape[axis]
    if split is None:
        parts = np.split(x, extent, axis) if extent else []
        return parts if keeps else [np.squeeze(p, axis) for p in parts]
    if not keeps:
        return None  # to be ignored, says ONNX; ONNX Runtime does not
    if split.ndim == 0:
        size = int(split.item())
        if size <= 0:
            return None
        return np.split(x, range(size, extent, size), axis)
    sizes = split.tolist()
    if split.ndim != 1 or not sizes or min(sizes) < 0 or sum(sizes) != extent:
        return None
    return np.split(x, np.cumsum(sizes[:-1]).tolist(), axis)


@_kernel("SequenceConstruct")
def _construct(node: Node, inputs: Sequence[Any]) -> Any:
    arrays = list(inputs)
    return arrays if len({x.dtype for x in arrays}) == 1 else None


@_kernel("SequenceLength")
def _length(node: Node, inputs: Sequence[Any]) -> Any:
    return np.array(len(inputs[0]), np.int64) if isinstance(inputs[0], list) else None


@_kernel("SequenceAt")
def _at(node: Node, inputs: Sequence[Any]) -> Any:
    items = inputs[0]
    return items[_position(inputs[1], -len(items), len(items) - 1)]


@_kernel("SequenceInsert")
def _insert(node: Node, inputs: Sequence[Any]) -> Any:
    items, new, at = list(inputs[0]), inputs[1], _input(inputs, 2)
    if any(x.dtype != new.dtype for x in items):
        return None
    items.insert(len(items) if at is None else _position(at, -len(items), len(items)), new)
    return items


@_kernel("SequenceErase")
def _erase(node: Node, inputs: Sequence[Any]) -> Any:
    items, at = list(inputs[0]), _input(inputs, 1)
    del items[-1 if at is None else _position(at, -len(items), len(items) - 1)]
    return items or None  # an empty list does not tell its element type


@_kernel("ConcatFromSequence")
def _concat(node: Node, inputs: Sequence[Any]) -> Any:
    items, axis = inputs[0], int(node.attrs["axis"])
    if not items:
        return None
    if int(node.attrs.get("new_axis", 0)):
        return np.stack(items, axis)
    return np.concatenate(items, axis)
