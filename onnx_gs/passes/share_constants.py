"""Equal weights stored once; and the opposite, a copy for each reader."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.values import SparseValues
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, replace_all, works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node, Tensor

_SMALL = 4096
_SAMPLE = 64


@dataclass(frozen=True)
class ShareConstants(Pass):
    """Store equal weights once.

    Matches:   constants of equal type, shape and bytes (so +0 and -0 differ, and equal NaNs are equal), in a graph and its bodies.
    Rewrites:  all readers read the first of them. Nothing is computed; large weights are compared by samples first, then byte by byte.
    Declines:  a constant that a graph returns keeps its name and stays; sparse ones, and those with an ``export_dtype``, stay apart.

    Args:
        split: do the opposite: give every reader of a constant a copy of its own.
        most_bytes: weights larger than this are not compared.
    """

    name: ClassVar[str] = "share-constants"
    shares: ClassVar[bool] = True
    split: bool = False
    most_bytes: int = 1 << 28

    def run(self, graph: Graph, report: Report) -> None:
        """Share, or split, in the graph and its functions."""
        for work in works(graph, report):
            found = _constants(work.graphs())
            if self.split:
                _split(work, found)
            else:
                self._share(work, found)

    def _share(self, work: Work, found: list[tuple[Graph, Node, Constant]]) -> None:
        if all(id(t) in work.compared for _, _, t in found):
            return  # no weight is new since all were compared
        work.compared = {id(t): t for _, _, t in found}
        small: dict[Any, Constant] = {}
        large: dict[Any, list[Constant]] = {}
        same: dict[int, tuple[Tensor, Tensor]] = {}
        kinds = [None if t._export_dtype is not None or isinstance(t._values, SparseValues) else (dtypes.of(t), t.shape) for _, _, t in found]
        alike = Counter(kinds)
        for (owner, node, t), kind in zip(found, kinds):
            if kind is None or alike[kind] == 1:
                continue  # alone of its kind: not even read
            known, size = kind[0], t.nbytes
            if known is None or size > self.most_bytes:
                continue
            if known is dtypes.STRING:
                key: Any = (known.number, t.shape, tuple(np.asarray(t.values).ravel().tolist()))
                twin = small.setdefault(key, t)
            elif size <= _SMALL:
                twin = small.setdefault((known.number, t.shape, t.values.tobytes()), t)
            else:
                twin = _equal_one(large.setdefault((known.number, t.shape, _ends(t)), []), t)
            if twin is t:
                continue
            work.report.rewrote(owner, node, f"reads '{twin.name}' instead of its copy '{t.name}'")
            same[id(t)] = (t, twin)
        replace_all(same)


def _constants(graphs: list[Graph]) -> list[tuple[Graph, Node, Constant]]:
    """List the weights, each with its first reader."""
    seen: set[int] = set()
    found: list[tuple[Graph, Node, Constant]] = []
    for owner in graphs:
        for node in owner.nodes:
            for t in node._inputs:
                if isinstance(t, Constant) and id(t) not in seen:
                    seen.add(id(t))
                    found.append((owner, node, t))
    return found


def _equal_one(candidates: list[Constant], t: Constant) -> Constant:
    """Give the candidate that holds the same bytes, else ``t``, which then is one more candidate."""
    for other in candidates:
        if np.array_equal(_raw(t), _raw(other)):
            return other
    candidates.append(t)
    return t


def _ends(t: Constant) -> bytes:
    """Give the first and the last bytes of a weight: enough to tell nearly all apart, without reading more of a file than two pages."""
    raw = _raw(t)
    return raw[:_SAMPLE].tobytes() + raw[-_SAMPLE:].tobytes()


def _raw(t: Constant) -> np.ndarray[Any, Any]:
    values = np.ascontiguousarray(t.values).reshape(-1)
    return values.view(np.uint8) if values.dtype.itemsize % 4 else values.view(np.uint32)


def _split(work: Work, found: list[tuple[Graph, Node, Constant]]) -> None:
    for owner, node, t in found:
        for reader in list(t._outputs)[1:]:
            at = max(i for i, read in enumerate(reader._inputs) if read is t)
            twin = t.copy()
            twin.name = work.edit.names.fresh(t.name)
            reader._inputs[at] = twin
        if len(t._outputs) > 1:
            work.report.rewrote(owner, node, f"'{t.name}' got a copy for each reader")
