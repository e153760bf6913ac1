"""Types of values: tensors, sparse tensors, sequences, optionals, maps and opaque ones, nested as ONNX nests them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

@dataclass(slots=True)
class ValueType:
    """The type of one value, named as in ONNX's ``TypeProto``.

    Attributes:
        kind: ``"tensor_type"``, ``"sparse_tensor_type"``, ``"sequence_type"``, ``"optional_type"``, ``"map_type"`` or ``"opaque_type"``.
        dtype: element type as scripts see it (numpy dtype or enum number); for a map, of its key. None where unknown.
        shape: dims (int, str, None), or None for an unknown rank; only tensors have one.
        element: what a sequence or optional holds, or a map's value.
        name: domain and name of an opaque type.
    """

    kind: str = "tensor_type"
    dtype: Any = None
    shape: Sequence[int | str | None] | None = None
    element: ValueType | None = None
    name: tuple[str, str] | None = None

    def __str__(self) -> str:
        """Spell the type as ONNX text does, such as ``seq(tensor(float))``."""
        known = dtypes.find(self.dtype)
        base = known.name.lower() if known else "?"
        if self.kind in {"tensor_type", "sparse_tensor_type"}:
            dims = "" if self.shape is None else "[" + ",".join("?" if d is None else str(d) for d in self.shape) + "]"
            return f"{'sparse_' if self.kind.startswith('sparse') else ''}tensor({base}{dims})"
        if self.kind == "map_type":
            return f"map({base},{self.element})"
        if self.kind == "opaque_type":
            return f"opaque{self.name}"
        return f"{'seq' if self.kind == 'sequence_type' else 'optional'}({self.element})"

    def leaf(self) -> ValueType:
        """Give the innermost type: what a sequence or optional holds in the end."""
        found = self
        while found.element is not None and found.kind != "map_type":
            found = found.element
        return found
