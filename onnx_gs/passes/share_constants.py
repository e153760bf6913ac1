"""Equal weights stored once; and the opposite, a copy for each reader."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.values import LazyValues, SparseValues
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, replace_all, works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.dtypes import DataType

_SMALL = 4096
_SAMPLE = 16


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
        known: dict[Any, _Alike] = work.alike
        seen = work.compared
        same: dict[int, tuple[Tensor, Tensor]] = {}
        for owner, node, t in found:
            if id(t) in seen:
                continue
            seen[id(t)] = t
            if t._export_dtype is not None or isinstance(t._values, SparseValues):
                continue
            dtype, shape = dtypes.of(t), t.shape
            if dtype is None:
                continue
            alike = known.get((dtype, shape))
            if alike is None:
                known[dtype, shape] = _Alike(dtype, t)
                continue
            size = math.prod(shape) * dtype.numpy.itemsize
            if size > self.most_bytes:
                continue
            twin = alike.twin(t, size)
            if twin is not None:
                work.report.rewrote(owner, node, f"reads '{twin.name}' instead of its copy '{t.name}'")
                same[id(t)] = (t, twin)
        replace_all(same)


class _Alike:
    """Weights of one element type and shape, by what they hold; the first one is read when there is a second.

    Args:
        dtype: their element type.
        first: the first of them.
    """

    __slots__ = ("_peeked", "dtype", "first", "groups")

    def __init__(self, dtype: DataType, first: Constant) -> None:
        """Read nothing yet."""
        self.dtype = dtype
        self.first: Constant | None = first
        self._peeked: Any = None  # what was looked at last: a file stays mapped while this is held
        self.groups: dict[Any, list[tuple[Constant, Any]]] = {}  # with the values that the key is of

    def twin(self, t: Constant, size: int) -> Constant | None:
        """Give a weight that holds the same and is still in use; else take in this one, of so many bytes, and give None."""
        if self.first is not None:
            self.groups[self._key(self.first, size)] = [(self.first, self.first._values)]
            self.first = None
        key = self._key(t, size)
        group = self.groups.get(key)
        if group is None:
            self.groups[key] = [(t, t._values)]
            return None
        group[:] = [known for known in group if known[0]._outputs]
        is_all = size <= _SMALL or self.dtype is dtypes.STRING  # what the key has
        for other, held in group:
            if is_all and (other._values is held or self._key(other, size) == key):  # a pass may have changed it since
                return other
            if not is_all and np.array_equal(_raw(t), _raw(other)):
                return other
        group.append((t, t._values))
        return None

    def _key(self, t: Constant, size: int) -> Any:
        """Give what equal weights have in common; of large ones the first and last elements, which takes no more of a file than two pages."""
        if size <= _SMALL and isinstance(t._values, LazyValues) and sys.byteorder == "little":
            stored = t._values.raw()
            if stored is not None:
                return stored
        values = self._peeked = np.asarray(t.peek())
        if self.dtype is dtypes.STRING:
            return tuple(values.ravel().tolist())
        if size <= _SMALL:
            return values.tobytes()
        flat = values.flat
        return flat[:_SAMPLE].tobytes() + flat[-_SAMPLE:].tobytes()


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


def _raw(t: Constant) -> np.ndarray[Any, Any]:
    values = np.ascontiguousarray(t.peek()).reshape(-1)  # which copies what is transposed
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
