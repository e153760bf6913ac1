"""The table: which function says how an operator shapes its outputs, and what the function looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.analysis.dim_expr import Dim

if TYPE_CHECKING:
    from collections.abc import Callable

Shape = tuple[Dim, ...]
ShapeFunction = Any  # Callable[[ShapeFacts, Node], None]

#: By operator, or by domain and operator for those of other domains.
FUNCTIONS: dict[Any, ShapeFunction] = {}
#: Operators whose functions read constants of floats, which are no part of the facts about a tensor.
READ_FLOATS = frozenset({"Cast", "CastLike", "Resize", "Upsample"})
#: Functions that give a single output the type and shape of the first input, whatever else the node has.
HAND_ON: set[ShapeFunction] = set()
#: How many inputs a function looks at, the first ones; those that are not here may look at all.
LOOKS_AT: dict[ShapeFunction, int] = {}
#: Functions that look at no attribute, so that those need not be decoded.
WITHOUT_ATTRIBUTES: set[ShapeFunction] = set()


def handles(
    *ops: str, domain: str | None = None, looks_at: int | None = None, attributes: bool = True, hands_on: bool = False
) -> Callable[[ShapeFunction], ShapeFunction]:
    """Enter a function into the table, for these operators.

    Args:
        ops: the operators.
        domain: theirs; None for ONNX's own.
        looks_at: how many inputs the function looks at, the first ones; None for all.
        attributes: whether it looks at attributes.
        hands_on: whether a single output gets type and shape of the first input, whatever else the node has.
    """

    def enter(function: ShapeFunction) -> ShapeFunction:
        for op in ops:
            FUNCTIONS[op if domain is None else (domain, op)] = function
        if looks_at is not None:
            LOOKS_AT[function] = looks_at
        if not attributes:
            WITHOUT_ATTRIBUTES.add(function)
        if hands_on:
            HAND_ON.add(function)
        return function

    return enter
