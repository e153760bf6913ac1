"""Where an axis is in a reshaped tensor: sizes alone may leave a choice, so that what was chosen has to be proved."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Where the axis is looked for in a reshaped tensor, in which order: several places may fit the old sizes, and the proof tells which is right.
ORDERS = (("front", "behind", "kept"), ("front", "kept", "behind"), ("kept", "front", "behind"), ("behind", "front", "kept"))


class Axis(NamedTuple):
    """The axis in the tensor that is reshaped.

    Attributes:
        old: its size.
        size: the size of the dim that holds it: a multiple of ``old`` where it is merged with others.
        inner: how many elements lie behind that dim.
        position: the dim.
    """

    old: int
    size: int
    inner: int
    position: int


def find(axis: Axis, out: list[int], order: tuple[str, ...]) -> tuple[int | None, bool]:
    """Give the dim of a reshaped tensor that holds an axis, and whether others would do as well; None where no dim does.

    Args:
        axis: the axis.
        out: the dims after the reshape.
        order: one of ``ORDERS``.

    Example:
        >>> find(Axis(old=2, size=2, inner=6, position=0), [2, 3, 2], ORDERS[0])
        (0, False)
        >>> find(Axis(old=2, size=2, inner=64, position=1), [64, 8, 16], ORDERS[0])  # joins the heads
        (1, False)
    """
    strides = [math.prod(out[i + 1 :]) for i in range(len(out))]

    def places(count: int, stride: int) -> list[int]:
        return [i for i, d in enumerate(out) if d == count and strides[i] == stride]

    old, size, inner, position = axis
    if size == old:
        found = places(size, inner)
        if found:
            return position if position in found else found[0], False
        begins = [i for i, d in enumerate(out) if strides[i] < inner and strides[i] * d == inner * size]
        ends = [i for i, d in enumerate(out) if strides[i] == inner and d % size == 0]
        # What lies behind the axis is split: the axis joins the first of that, as a batch joins the heads. Else it joins what is in front.
        kept = [] if begins and out[begins[0]] != inner * size else ends
        forms = {"kept": kept, "front": begins, "behind": ends}
        fitting = [form for form in ("kept", *order) if forms[form]]
        if order[0] == "behind":
            fitting.reverse()
    else:
        forms = {"front": places(old, inner * (size // old)), "behind": places(old, inner), "kept": places(size, inner)}
        fitting = [form for form in order if forms[form]]
    if fitting:
        return forms[fitting[0]][0], len({forms[form][0] for form in fitting}) > 1
    in_front = _loosely(axis, out, strides, inner * (size // old))  # the axis in front of what it was merged with
    return (in_front if in_front is not None else _loosely(axis, out, strides, inner)), False


def _loosely(axis: Axis, out: list[int], strides: list[int], apart: int) -> int | None:
    """Find the dim that the elements of the axis, so far apart, fall into."""
    fitting = [
        i
        for i, d in enumerate(out)
        if 0 < strides[i] <= apart <= strides[i] * d // axis.old and apart % strides[i] == 0 and d % axis.old == 0
    ]
    if not fitting:
        return None
    exact = [i for i in fitting if out[i] == axis.size]
    return axis.position if axis.position in exact else (exact or fitting)[0]
