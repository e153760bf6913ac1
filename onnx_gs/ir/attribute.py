"""Attribute values that are not plain Python: references to a function's attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class AttributeRef:
    """An attribute of a node in a function body that takes its value from an attribute of the function.

    Attributes:
        name: the function's attribute.
        type: the Python-side type of the value: ``float``, ``int``, ``str``, ``Tensor``, ``Graph``, ``list[float]``, …

    Example:
        >>> AttributeRef("alpha", float) == AttributeRef("alpha", float)
        True
    """

    name: str
    type: Any


def has_reference(attrs: Mapping[str, Any]) -> bool:
    """Say whether the value of an attribute is known at the call of the function around it only.

    Example:
        >>> has_reference({"axis": 1}), has_reference({"axis": AttributeRef("axis", int)})
        (False, True)
    """
    return any(isinstance(value, AttributeRef) for value in attrs.values())
