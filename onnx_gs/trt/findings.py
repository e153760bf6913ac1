"""Findings: what stands between a model and TensorRT, and what TensorRT would silently do differently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_gs.trt.capability import ROWS

if TYPE_CHECKING:
    from onnx_gs.trt.capability import Row


@dataclass(frozen=True)
class Finding:
    """One blocker or warning.

    Attributes:
        id: what kind it is, a stable name; ``capability.ROWS`` has them all.
        title: the kind, for people.
        path: the node, through bodies and functions; or the graph, for an input or output.
        tensor: the tensor at fault; empty where it is the node itself.
        reason: what is wrong here, with the values at fault.
        remedy: what removes it.
        passes: the passes that may remove it.
        op: the operator.
        by: ``"table"``, ``"parser"`` or ``"builder"``: who says so.
        said: TensorRT's own words.
        source: where the fact comes from.
    """

    id: str
    title: str
    path: str
    tensor: str = ""
    reason: str = ""
    remedy: str = ""
    passes: tuple[str, ...] = ()
    op: str = ""
    by: str = "table"
    said: str = ""
    source: str = ""

    @property
    def row(self) -> Row:
        """The row of the table."""
        return ROWS[self.id]

    @property
    def advice(self) -> str:
        """The remedy, with the command that runs the passes that may be it."""
        if not self.passes:
            return self.remedy
        return f"{self.remedy} (`onnx-gs prepare` runs {' and '.join(self.passes) if len(self.passes) < 3 else 'these passes'})"

    def as_dict(self) -> dict[str, Any]:
        """Give plain data, for JSON."""
        plain = {"id": self.id, "title": self.title, "path": self.path, "tensor": self.tensor, "reason": self.reason, "remedy": self.remedy}
        return {**plain, "passes": list(self.passes), "op": self.op, "by": self.by, **({"said": self.said} if self.said else {})}

    def __str__(self) -> str:
        """Show it in three lines."""
        subject = f" (tensor '{self.tensor}')" if self.tensor else ""
        said = f"\n  TensorRT says: {self.said}" if self.said else ""
        return f"{self.title} [{self.id}]: {self.reason}{subject}\n  where: {self.path}\n  remedy: {self.advice}{said}"


def finding(
    row: str, path: str, reason: str, *, tensor: str = "", op: str = "", remedy: str | None = None, passes: tuple[str, ...] | None = None
) -> Finding:
    """Make a finding of a row."""
    known = ROWS[row]
    return Finding(
        row,
        known.title,
        path,
        tensor,
        reason,
        known.remedy if remedy is None else remedy,
        known.passes if passes is None else passes,
        op,
        source=known.source,
    )
