"""Two results side by side: equal bit for bit, or how far apart and where first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_gs.ir import dtypes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """How two values differ.

    Attributes:
        kind: ``"kind"``, ``"dtype"``, ``"shape"``, ``"length"`` or ``"values"``.
        text: what differs, for people.
        absolute: the largest absolute difference of numbers; infinite where one is NaN or infinite and the other is not.
        relative: the largest absolute difference over the largest finite magnitude of the first value.
        ulp: the largest distance in units in the last place, None for what is no float.
        count: elements that differ.
        first: where the first one is.
    """

    kind: str
    text: str
    absolute: float = float("inf")
    relative: float = float("inf")
    ulp: int | None = None
    count: int = 0
    first: tuple[int, ...] = ()

    def within(self, absolute: float = 0.0, relative: float = 0.0) -> bool:
        """Say whether it is a difference of numbers that one of two tolerances covers."""
        return self.kind == "values" and (self.absolute <= absolute or self.relative <= relative)

    def __str__(self) -> str:
        """Say what differs."""
        return self.text


def compare(a: Any, b: Any) -> Difference | None:
    """Compare two values: arrays, strings, lists of such, None.

    Equal means: same dtype, shape and values; NaN equals NaN and +0 equals -0; integers are compared as integers.

    Returns:
        None where they are equal, else how they differ.

    Example:
        >>> compare(np.float32([1, np.nan, 0.0]), np.float32([1, np.nan, -0.0])) is None
        True
        >>> found = compare(np.float32([1, 2]), np.float32([1, 2.0000002]))
        >>> found.ulp, found.first
        (1, (1,))
    """
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return _compare_lists(a, b)
    if isinstance(a, dict) or isinstance(b, dict):
        if not isinstance(a, dict) or not isinstance(b, dict) or a.keys() != b.keys():
            return Difference("kind", "maps with other keys")
        return _compare_lists([a[k] for k in a], [b[k] for k in a])
    if a is None or b is None:
        return None if a is b else Difference("kind", f"{_told(a)} against {_told(b)}")
    x, y = np.asarray(a), np.asarray(b)
    known, other = dtypes.find(x.dtype), dtypes.find(y.dtype)
    if known is not other or (known is None and x.dtype != y.dtype):
        return Difference("dtype", f"dtype {x.dtype} against {y.dtype}")
    if x.shape != y.shape:
        return Difference("shape", f"shape {list(x.shape)} against {list(y.shape)}")
    return _compare_arrays(x, y, known)


def _compare_lists(a: Any, b: Any) -> Difference | None:
    if not isinstance(a, (list, tuple)) or not isinstance(b, (list, tuple)):
        return Difference("kind", f"{_told(a)} against {_told(b)}")
    if len(a) != len(b):
        return Difference("length", f"{len(a)} elements against {len(b)}")
    for at, (x, y) in enumerate(zip(a, b)):
        found = compare(x, y)
        if found is not None:
            return Difference(found.kind, f"element {at}: {found.text}", found.absolute, found.relative, found.ulp, found.count, (at, *found.first))
    return None


def _told(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return f"a sequence of {len(value)}"
    return f"a tensor {value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else repr(value)


def _compare_arrays(x: Array, y: Array, known: dtypes.DataType | None) -> Difference | None:
    if known is dtypes.STRING:
        same = np.array([_text(p) == _text(q) for p, q in zip(x.reshape(-1), y.reshape(-1))], bool).reshape(x.shape)
        return None if same.all() else _at(x, y, ~same, float("inf"), float("inf"), None)
    is_float = known is not None and known.kind == "float"
    if not is_float and x.dtype.kind in "biu":
        differ = x != y
        if not differ.any():
            return None
        far = max(abs(int(p) - int(q)) for p, q in zip(x[differ][:1000].tolist(), y[differ][:1000].tolist()))
        return _at(x, y, differ, float(far), far / max(1.0, float(np.abs(x.astype(np.float64)).max())), None)
    wide: Any = np.complex128 if x.dtype.kind == "c" else np.float64
    p, q = (x, y) if x.dtype.kind in "fc" else (x.astype(np.float32), y.astype(np.float32))
    with np.errstate(all="ignore"):
        differ = ~((p == q) | ((p != p) & (q != q)))  # noqa: PLR0124 - NaN
        if not differ.any():
            return None
        gap = np.abs(p[differ].astype(wide) - q[differ].astype(wide))
        absolute = float("inf") if not np.isfinite(gap).all() else float(gap.max())
        finite = np.abs(p[np.isfinite(p)].astype(wide))
        largest = float(finite.max()) if finite.size else 0.0
    return _at(x, y, differ, absolute, absolute / largest if largest else float("inf"), _ulps(x, y, differ) if is_float else None)


def _text(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _ulps(x: Array, y: Array, differ: Array) -> int | None:
    """Give the largest distance in steps between neighbouring numbers; None where a NaN is among them or the type is no IEEE float."""
    bits = {2: np.int16, 4: np.int32, 8: np.int64}.get(x.dtype.itemsize)
    if bits is None or x.dtype.kind == "c":
        return None
    p, q = np.ascontiguousarray(x[differ]), np.ascontiguousarray(y[differ])
    if (p != p).any() or (q != q).any():  # noqa: PLR0124 - NaN
        return None

    def steps(v: Array) -> list[int]:
        least = int(np.iinfo(bits).min)
        return [i if i >= 0 else least - i for i in v.view(bits).astype(object).tolist()]

    return max(abs(m - n) for m, n in zip(steps(p[:10000]), steps(q[:10000])))


def _at(x: Array, y: Array, differ: Array, absolute: float, relative: float, ulp: int | None) -> Difference:
    first = tuple(int(k) for k in np.unravel_index(int(np.argmax(differ)), differ.shape)) if differ.ndim else ()
    count = int(np.count_nonzero(differ))
    text = f"{count} of {x.size} elements differ, first at {list(first)}: {x[first]!s} against {y[first]!s}; at most {absolute:.3g} apart"
    if ulp is not None:
        text += f" ({ulp} units in the last place)"
    return Difference("values", text, absolute, relative, ulp, count, first)
