"""Inputs for a graph: seeded, of the declared types, in several sizes of what is not fixed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from onnx_gs.errors import EvaluationError, GraphValueError, MissingExtraError
from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.types import ValueType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onnx_gs.ir import Graph, Tensor

Array = np.ndarray[Any, Any]
T = TypeVar("T")
#: How the error begins where a model is refused before any value is seen.
CANNOT_LOAD = "ONNX Runtime cannot load the model"
#: Sizes that dims get which are not fixed, one for each variant; small, and different, so that no two are mixed up.
SIZES = (2, 3, 5, 4)
#: What hands indices on as they are.
_CARRIES = frozenset({"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice"})
_WORDS = ("a", "B", "Monday", "tuesday", "")


class _Round(NamedTuple):
    """How a round of inputs is made up.

    Attributes:
        high: one more than the largest integer.
        sizes: of dims that are not fixed, one for each variant.
        leading: of those that come first in an input with more of them, such as a batch; None for ``sizes``.
    """

    high: int
    sizes: tuple[int, ...] = SIZES
    leading: tuple[int, ...] | None = None


#: What is tried in turn, until a model runs: smaller integers, where larger ones are indices out of range; then larger sizes, since images are halved
#: several times and sound is cut into frames.
_ROUNDS = (
    _Round(10), _Round(2), _Round(1), _Round(10, SIZES, (1,)),
    *(_Round(high, sizes, leading) for sizes in ((8, 16), (32, 64), (256, 512)) for leading in (SIZES, (1,), None) for high in (10, 2)),
)  # fmt: skip
#: Inputs of more elements than this are not made up in larger sizes.
_MOST_ELEMENTS = 1 << 22
#: No further round begins after so many seconds.
_MOST_SECONDS = 60.0


def make(
    graph: Graph, seed: int = 0, variant: int = 0, *, dims: Mapping[str, int] | None = None, given: Mapping[str, Any] | None = None,
    low: int = 0, high: int = 10, sizes: Sequence[int] = SIZES, leading: Sequence[int] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Give a value for every input of a graph.

    Floats are standard normal, integers from ``low`` up to ``high`` - 1, or to what a ``Gather`` of a smaller table takes, booleans mostly true,
    strings short words. One name of a dim has one size in all inputs.

    Args:
        graph: the graph.
        seed: another seed gives other numbers.
        variant: another variant gives other sizes of the dims that are not fixed.
        dims: sizes of dims by name.
        given: values of inputs by name, taken as they are, and their sizes for dims of the same names.
        low: the least integer.
        high: one more than the largest integer.
        sizes: of the dims that are not fixed, one for each variant.
        leading: those of dims that come first in an input with more of them; None for ``sizes``.

    Raises:
        EvaluationError: an input has no type, or one that has no values to make up.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> make(Graph(inputs=[Variable("x", np.float32, ("n", 3))]), variant=1)["x"].shape
        (3, 3)
    """
    rng = np.random.default_rng(seed)
    known = dict(dims or {})
    for t in graph.inputs:
        if given is not None and t.name in given and t.shape:
            known.update((dim, size) for dim, size in zip(t.shape, getattr(given[t.name], "shape", ())) if isinstance(dim, str) and dim)
    if leading is not None:
        for t in graph.inputs:
            if t.shape and len(t.shape) > 1 and not is_static_dim(t.shape[0]):
                known.setdefault(_name_of(t, 0), leading[variant % len(leading)])
    size = sizes[variant % len(sizes)]
    found: dict[str, Any] = {}
    for t in graph.inputs:
        if isinstance(t, Constant):
            continue
        if given is not None and t.name in given:
            found[t.name] = given[t.name]
            continue
        kind = getattr(t, "value_type", None) or ValueType("tensor_type", t.dtype, t.shape)
        found[t.name] = value_of(kind, t, rng, known, size, (low, max(low + 1, min(high, _rows(t)))))
    return found


def _rows(t: Tensor) -> int:
    """Give how many rows the smallest table has that an input of integers is an index of; a large number where it is none."""
    known = dtypes.of(t)
    least = 1 << 31
    if known is None or known.kind not in {"int", "uint"}:
        return least
    pending, seen = [t], {id(t)}
    while pending:
        current = pending.pop()
        for node in current.outputs:
            if not node.is_onnx or not node.outputs:
                continue
            table = node.inputs[0]
            if node.op == "Gather" and table is not current and table.shape:
                axis = node.attrs.get("axis", 0)
                size = table.shape[axis] if isinstance(axis, int) else None
                if is_static_dim(size) and int(size) > 0:
                    least = min(least, int(size))
            elif node.op in _CARRIES and table is current and id(node.outputs[0]) not in seen:
                seen.add(id(node.outputs[0]))
                pending.append(node.outputs[0])
    return least


def value_of(kind: ValueType, tensor: Tensor, rng: np.random.Generator, sizes: dict[str, int], size: int, bounds: tuple[int, int] = (0, 10)) -> Any:
    """Make up a value of a type.

    Args:
        kind: the type.
        tensor: the input.
        rng: where numbers come from.
        sizes: known sizes of dims; gets those that are new.
        size: of other dims that are not fixed, and of sequences.
        bounds: the least integer, and one more than the largest.

    Raises:
        EvaluationError: nothing can be made up for the type.
    """
    if kind.kind in {"tensor_type", "sparse_tensor_type"}:
        dims = kind.shape if kind.shape is not None else ()
        shape = [int(d) if is_static_dim(d) else sizes.setdefault(d if isinstance(d, str) and d else f"{tensor.name}#{k}", size)
                 for k, d in enumerate(dims)]  # fmt: skip
        known = dtypes.find(kind.dtype)
        if known is None:
            raise EvaluationError(f"input '{tensor.name}' has no element type", fix="set its dtype, or give a value for it")
        return _array(known, shape, rng, bounds)
    if kind.kind == "sequence_type" and kind.element is not None:
        return [value_of(kind.element, tensor, rng, sizes, size, bounds) for _ in range(min(size, max(SIZES)))]
    if kind.kind == "optional_type" and kind.element is not None:
        return value_of(kind.element, tensor, rng, sizes, size, bounds)
    if kind.kind == "map_type" and kind.element is not None:
        known = dtypes.find(kind.dtype)
        keys: Sequence[Any] = _WORDS[:2] if known is dtypes.STRING else (0, 1)
        leaf = dtypes.find(kind.element.dtype)
        floats = leaf is None or leaf.kind == "float"
        return {k: float(rng.standard_normal()) if floats else int(rng.integers(*bounds)) for k in keys}
    raise EvaluationError(f"input '{tensor.name}' has type {kind}, for which no values can be made up", fix="give a value for it")


def _name_of(tensor: Tensor, axis: int) -> str:
    """Give the name of a dim, or, where it has none, its place."""
    dim = tensor.shape[axis] if tensor.shape else None
    return dim if isinstance(dim, str) and dim else f"{tensor.name}#{axis}"


def _array(known: dtypes.DataType, shape: Sequence[int], rng: np.random.Generator, bounds: tuple[int, int]) -> Array:
    if known is dtypes.STRING:
        found = np.empty(tuple(shape), object)
        found[...] = rng.choice(np.array(_WORDS, object), size=tuple(shape)) if found.ndim else str(rng.choice(_WORDS))
        return found
    if known is dtypes.BOOL:
        return np.asarray(rng.random(shape) < 0.7)
    if known.kind in {"int", "uint"}:
        low, high = bounds
        if known.bits < 8:
            low, high = (0 if known.kind == "uint" else -1), 2
        return np.asarray(rng.integers(max(low, 0) if known.kind == "uint" else low, high, shape)).astype(known.numpy)
    if known.kind == "complex":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(known.numpy)
    drawn = np.asarray(rng.standard_normal(shape)).astype(np.float32)
    return (np.abs(drawn) if known is dtypes.FLOAT8E8M0 else drawn).astype(known.numpy)  # a scale has no sign


def rounds(
    graph: Graph, seeds: Sequence[int] = (0, 1, 2), variants: int = 2, *, dims: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Iterator[list[dict[str, Any]]]:  # fmt: skip
    """Make up inputs in rounds, to be tried until the graph runs on some of one: with smaller integers, then with larger sizes.

    A round that would be like an earlier one, or too large, is left out, and none begins after a minute. There is one set where all inputs are given.

    Args:
        graph: the graph.
        seeds: one for each set of inputs of a round.
        variants: sizes of the dims that are not fixed; they take turns with the seeds.
        dims: sizes of dims by name, one mapping for all variants or one each.
        given: values of inputs by name.

    Raises:
        EvaluationError: no values can be made up for an input.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> [one["x"].shape for one, *_ in rounds(Graph(inputs=[Variable("x", np.float32, ("n", 3, "m"))]))][:5]
        [(2, 3, 2), (1, 3, 2), (2, 3, 8), (1, 3, 8), (8, 3, 8)]
    """
    began = time.monotonic()
    by_variant: Sequence[Any] = dims if isinstance(dims, (list, tuple)) else [dims] * max(1, variants)
    made_up = [t for t in graph.inputs if not isinstance(t, Constant) and (given is None or t.name not in given)]
    seen: set[Any] = set()
    for at, (high, sizes, leading) in enumerate(_ROUNDS):
        if at and time.monotonic() - began > _MOST_SECONDS:
            return
        if sizes is not SIZES and _elements(graph, sizes, leading, by_variant[0], given) > _MOST_ELEMENTS:
            continue
        sets = [
            make(graph, seed, seed % variants, dims=by_variant[seed % len(by_variant)], given=given, high=high, sizes=sizes, leading=leading)
            for seed in (seeds if made_up else seeds[:1])
        ]
        integers = high if any(_is_integer(t) for t in made_up) else None
        looks = (integers, *(np.shape(one[t.name]) if hasattr(one[t.name], "shape") else sizes for one in sets for t in made_up))
        if looks not in seen:
            seen.add(looks)
            yield sets


def _is_integer(t: Tensor) -> bool:
    known = dtypes.of(t)
    return known is None or known.kind in {"int", "uint"}  # None: a sequence or another type, which may hold some


def _elements(
    graph: Graph, sizes: Sequence[int], leading: Sequence[int] | None, dims: Mapping[str, int] | None, given: Mapping[str, Any] | None
) -> int:
    """Count the elements of inputs of the largest sizes."""
    total = 0
    for t in graph.inputs:
        if not isinstance(t, Constant) and (given is None or t.name not in given) and t.shape:
            count = 1
            for axis, dim in enumerate(t.shape):
                free = leading[0] if leading and not axis and len(t.shape) > 1 else sizes[-1]
                count *= int(dim) if is_static_dim(dim) else (dims or {}).get(_name_of(t, axis), free)
            total += count
    return total


def first_that_run(
    graph: Graph, attempt: Callable[[dict[str, Any]], T], seed: int = 0, *, given: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], T]:
    """Find inputs that a graph runs on.

    Args:
        graph: the graph.
        attempt: runs it; raises an ``EvaluationError`` where it does not run.
        seed: another seed makes up other inputs.
        given: values of inputs by name; the others are made up.

    Returns:
        The inputs, and what ``attempt`` gave for them.

    Raises:
        EvaluationError: it runs on none; the error is that of the first.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> def attempt(values):
        ...     if values["x"].size < 8:
        ...         raise EvaluationError("too few")
        ...     return "runs"
        >>> found, said = first_that_run(Graph(inputs=[Variable("x", np.float32, ("n",))]), attempt)
        >>> found["x"].shape, said
        ((8,), 'runs')
    """
    first: EvaluationError | None = None
    for sets in rounds(graph, (seed, seed + 1, seed + 2), given=given):
        for values in sets:
            try:
                return values, attempt(values)
            except MissingExtraError:
                raise
            except EvaluationError as error:
                if error.what.startswith(CANNOT_LOAD):  # whatever the values are
                    raise
                first = first or error
    assert first is not None  # there is always a first round
    raise first


def for_other(graph: Graph, other: Graph, values: Mapping[str, Any]) -> dict[str, Any]:
    """Give from the inputs of one model those that another takes.

    Args:
        graph: the model that the values run on.
        other: the other model; it may lack inputs.
        values: by name, also those that only the other model takes.

    Raises:
        GraphValueError: the other model needs an input that has no value.
    """
    needed = [t for t in other.inputs if not isinstance(t, Constant)]
    missing = [t.name for t in needed if t.name not in values and t._default is None]
    if missing:
        theirs = {t.name for t in needed}
        own = [t.name for t in graph.inputs if not isinstance(t, Constant) and t.name not in theirs]
        told = f"the models have different inputs: only the second has {_listed(missing)}" + (f", only the first {_listed(own)}" if own else "")
        raise GraphValueError(told, fix="compare models with inputs of the same names, or give values of those of the second too (--feeds FILE.npz)")
    return {t.name: values[t.name] for t in needed if t.name in values}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:5]) + (", …" if len(names) > 5 else "")
