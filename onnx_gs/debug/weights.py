"""Weights of two models: which hold the same, and how others differ."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.values import LazyValues

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.tensor import Tensor

PART = 1 << 22  # elements that are looked at in one go


class Weights:
    """Weights of two models: hashed, compared and described a few megabytes at a time; what is in one place of one file is not read at all.

    Args:
        before: the first model.
        after: the second.
        tolerance: largest absolute difference at which two float weights still count as equal.
        nodes: take what ``Constant`` nodes give as weights too.
    """

    def __init__(self, before: Graph, after: Graph, tolerance: float | None = None, *, nodes: bool = True) -> None:
        """Look where the weights of both models lie."""
        self.tolerance, self.nodes = tolerance, nodes
        self._held: dict[int, Constant | None] = {}
        self._hashes: dict[int, bytes] = {}
        self._contents: dict[int, bytes] = {}
        self._agree: dict[tuple[int, int], bool] = {}
        self._kept: list[Tensor] = []  # what is keyed by id stays alive
        sides = [{_region(t) for t in _stored(graph)} for graph in (before, after)]
        self._shared = (sides[0] & sides[1]) - {None}

    def of(self, t: Tensor) -> Constant | None:
        """Give the weight that a tensor is or gets from a ``Constant`` node; None for what is computed."""
        if isinstance(t, Constant):
            return t
        if not self.nodes or (node := constness.constant_node(t)) is None:
            return None
        if id(t) not in self._held:
            values = constness.values_of_node(node)
            stored = next(iter(node.attrs.values()), None)
            self._held[id(t)] = None if values is None else stored if isinstance(stored, Constant) else Constant(t._name or "value", values)
            self._kept.append(t)
        return self._held[id(t)]

    def hash(self, t: Constant) -> bytes:
        """Hash a weight by its place where both models refer to that place, else by its values."""
        found = self._hashes.get(id(t))
        if found is None:
            region = _region(t)
            found = repr((region, type_key(t))).encode() if region in self._shared else self.content(t)
            self._hashes[id(t)] = found
            self._kept.append(t)
        return found

    def content(self, t: Constant) -> bytes:
        """Hash a weight by its type and values, wherever they lie."""
        found = self._contents.get(id(t))
        if found is None:
            digest = hashlib.blake2b(repr(type_key(t)).encode(), digest_size=16)
            values = _values(t).reshape(-1)
            for part in _parts(values):
                digest.update(repr(part.tolist()).encode() if values.dtype == object else np.ascontiguousarray(part).view(np.uint8).data)
            found = self._contents[id(t)] = b"w" + digest.digest()
            self._kept.append(t)
        return found

    def agree(self, t: Constant, u: Constant) -> bool:
        """Say whether two weights are equal, or as close as the tolerance asks."""
        if t is u:
            return True
        key = (id(t), id(u))
        if key not in self._agree:
            self._agree[key] = self._compare(t, u)
            self._kept.extend((t, u))
        return self._agree[key]

    def _compare(self, t: Constant, u: Constant) -> bool:
        if self.hash(t) == self.hash(u):  # of the types too
            return True
        if type_key(t) != type_key(u):
            return False
        if self.content(t) == self.content(u):
            return True
        x, y = _values(t), _values(u)
        if x.dtype.kind == "f" and all(np.array_equal(v, w, equal_nan=True) for v, w in zip(_parts(x.reshape(-1)), _parts(y.reshape(-1)))):
            return True  # zeros of either sign, NaNs of any content
        if self.tolerance is None or not _is_float(x):
            return False
        pairs = zip(_parts(x.reshape(-1)), _parts(y.reshape(-1)))
        return all(np.allclose(v.astype(np.float64), w.astype(np.float64), rtol=0, atol=self.tolerance, equal_nan=True) for v, w in pairs)

    def told(self, t: Constant, u: Constant) -> str:
        """Say how two weights differ."""
        if type_key(t) != type_key(u):
            return f"{type_shown(t)} -> {type_shown(u)}"
        x, y = _values(t).reshape(-1), _values(u).reshape(-1)
        apart, most = 0, 0.0
        for v, w in zip(_parts(x), _parts(y)):
            differ = v != w
            if _is_float(x):
                v, w = v.astype(np.float64), w.astype(np.float64)
                differ &= ~(np.isnan(v) & np.isnan(w))
            apart += int(np.count_nonzero(differ))
            if x.dtype.kind not in "OUSbc" and differ.any():
                with np.errstate(all="ignore"):
                    gap = np.abs(v.astype(np.float64) - w.astype(np.float64))[differ]
                most = max(most, float(np.where(np.isnan(gap), np.inf, gap).max()))
        return f"{apart} of {x.size} elements differ" + (f", by at most {most:.3g}" if x.dtype.kind not in "OUSbc" else "")


def _stored(root: Graph) -> Iterable[Constant]:
    for graph in walk.graphs(root, functions=True):
        for t in walk.tensors(graph):
            if isinstance(t, Constant):
                yield t
        for node in graph.nodes:
            if node.op == "Constant":
                yield from (v for v in node.attrs.values() if isinstance(v, Constant))


def _region(t: Constant) -> tuple[Any, ...] | None:
    """Give the place of a weight that a file holds: file, offset, length; None for others, and for sparse ones, which have two."""
    values = t._values if t._origin is None else t.lazy
    region = getattr(values, "region", None)
    return None if region is None or isinstance(region, tuple) else (*region.file.identity, region.offset, region.length)


def _values(t: Constant) -> np.ndarray[Any, Any]:
    """Give a weight's values; what was not read before is not kept."""
    values = t._values
    return np.asarray(values.load() if isinstance(values, LazyValues) else values)


def _parts(flat: np.ndarray[Any, Any]) -> Iterable[np.ndarray[Any, Any]]:
    return (flat[at : at + PART] for at in range(0, flat.size, PART))


def _is_float(values: np.ndarray[Any, Any]) -> bool:
    known = dtypes.find(values.dtype)
    return known is not None and "float" in known.numpy.name


def type_key(t: Tensor) -> tuple[Any, ...]:
    """Give a tensor's kind, dtype and shape, to compare."""
    known = dtypes.of(t)
    return (getattr(t, "type", "tensor_type"), known.name if known else None, None if t.shape is None else tuple(t.shape))


def type_shown(t: Tensor) -> str:
    """Spell a tensor's kind, dtype and shape."""
    kind, name, shape = type_key(t)
    text = f"{name}{'' if shape is None else list(shape)}"
    return text if kind == "tensor_type" else f"{kind.removesuffix('_type')}({text})"
