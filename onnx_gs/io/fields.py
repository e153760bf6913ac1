"""Fields of messages, written only where they say something else: what was read stays as it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphError
from onnx_gs.io import attributes

if TYPE_CHECKING:
    from collections.abc import Mapping


def put(message: Any, field: str, value: Any) -> None:
    """Set a field unless it says so already: an unset field that means its default stays unset."""
    if getattr(message, field) != value:
        setattr(message, field, value)


def put_metadata(message: Any, wanted: Mapping[str, str]) -> None:
    """Make a message carry metadata, in the order of the dict.

    Raises:
        GraphError: the installed ``onnx`` has no field for it.
    """
    if "metadata_props" not in message.DESCRIPTOR.fields_by_name:
        if wanted:
            raise GraphError(f"the installed onnx cannot store metadata in a {type(message).__name__}", fix="upgrade onnx, or clear metadata_props")
        return
    if not attributes.same_items(message.metadata_props, wanted):
        message.ClearField("metadata_props")
        for key, value in wanted.items():
            message.metadata_props.add(key=key, value=value)
