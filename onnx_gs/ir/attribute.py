"""Attribute values that are not plain Python: references to a function's attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
