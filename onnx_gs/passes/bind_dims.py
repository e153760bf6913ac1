"""Dims that are not fixed get their sizes, by their name or by the input's axis."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.errors import GraphValueError
from onnx_gs.ir import walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.ir.types import ValueType
from onnx_gs.passes.base import Entry, Pass, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx_gs.ir import Graph
    from onnx_gs.ir.tensor import Tensor

    #: Sizes by the dim's name, by ``(input, axis)``, or by the text ``input:axis``.
    DimSizes = Mapping[str, int] | Mapping[tuple[str, int], int] | Mapping[str | tuple[str, int], int]


@dataclass(frozen=True)
class BindDims(Pass):
    """Give dims that are not fixed their sizes.

    Matches:   every declared dim of one of the names, of inputs, outputs and all values between, bodies included; also an expression in the names,
               such as ``2*batch + 1``, as exporters write it. Of an axis of an input: its dim, and where that has a name, all dims of the name.
    Rewrites:  the declared sizes. What is computed from them folds afterwards.
    Declines:  nothing.

    Args:
        dims: sizes by the dim's name, by ``(input, axis)``, or by the text ``input:axis``, for dims without a name too.
    """

    name: ClassVar[str] = "bind-dims"
    dims: DimSizes = field(default_factory=dict)

    def run(self, graph: Graph, report: Report) -> None:
        """Write the sizes down.

        Raises:
            GraphValueError: a size is no whole number of at least 0, no dim of the model has the name, or the input has no such axis, or a fixed one.
        """
        sizes, axes = resolve(graph, self.dims)
        seen: set[int] = set()
        for owner in walk.graphs(graph):
            for t in walk.tensors(owner):
                if not isinstance(t, Constant) and id(t) not in seen:
                    seen.add(id(t))
                    _bind(t, sizes)
        bind_axes(graph, axes)
        for t in graph.inputs:
            report.rewritten.append(Entry(self.name, t.name, "input", f"graph '{graph.name}' > input '{t.name}'", f"shape {list(t.shape or ())}"))


def resolve(graph: Graph, dims: DimSizes) -> tuple[dict[str, int], dict[tuple[str, int], int]]:
    """Tell which sizes are of names of dims, and which of axes of inputs whose dims have no name.

    A text that is the name of a dim means that dim, also where it reads like an input and its axis.

    Args:
        graph: the graph.
        dims: the sizes, as ``BindDims`` takes them.

    Returns:
        Sizes by name, and sizes by input and axis, counted from the front.

    Raises:
        GraphValueError: as for ``BindDims``.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> resolve(Graph(inputs=[Variable("x", "float32", ("n", None))]), {"x:0": 2, ("x", 1): 3})
        ({'n': 2}, {('x', 1): 3})
    """
    names: dict[str, int] = {}
    axes: dict[tuple[str, int], int] = {}
    known = _all_names(graph)
    inputs = {t.name: t for t in graph.inputs}
    for key, size in dims.items():
        told = key if isinstance(key, str) else ":".join(map(str, key)) if isinstance(key, tuple) else repr(key)
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise GraphValueError(f"dim '{told}' cannot be {size!r}", fix="give a whole number of at least 0")
        place = None if key in known else _place(key, inputs)
        if place is None and key not in known:
            raise GraphValueError(f"no dim is named '{told}'", fix=_what_there_is(graph))
        dim = key if place is None else _dim(inputs[place[0]], place[1])
        if isinstance(dim, str) and dim:
            if names.setdefault(dim, size) != size:
                raise GraphValueError(f"dim '{dim}' is to have the sizes {names[dim]} and {size}", fix="give it one")
        elif place is not None and is_static_dim(dim):
            if int(dim) != size:
                raise GraphValueError(f"axis {place[1]} of input '{place[0]}' has the size {dim}, and not {size}", fix="free it first: make_dynamic")
        elif place is not None:
            at = place[0], place[1] % len(inputs[place[0]].shape)
            if axes.setdefault(at, size) != size:
                raise GraphValueError(f"axis {at[1]} of input '{at[0]}' is to have the sizes {axes[at]} and {size}", fix="give it one")
    return names, axes


def bind_axes(graph: Graph, axes: Mapping[tuple[str, int], int]) -> None:
    """Write the sizes of axes of inputs down, as ``resolve`` gives them."""
    for t in graph.inputs:
        bound = {axis: size for (name, axis), size in axes.items() if name == t.name}
        if bound:
            shape = [bound.get(i, d) for i, d in enumerate(t.shape)]
            t.shape = shape if isinstance(t.shape, list) else tuple(shape)


def _place(key: Any, inputs: Mapping[str, Tensor]) -> tuple[str, int] | None:
    """Read a key as an input and its axis; None where it is none."""
    if isinstance(key, str):
        name, colon, axis = key.rpartition(":")
        return (name, int(axis)) if colon and name in inputs and axis.removeprefix("-").isdecimal() else None
    if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int)):
        raise GraphValueError(f"{key!r} names no dim", fix="give the dim's name, or a pair of an input's name and an axis")
    if key[0] not in inputs:
        raise GraphValueError(f"there is no input {key[0]!r}", fix=f"the inputs are {', '.join(map(repr, inputs))}")
    return key[0], key[1]


def _dim(t: Tensor, axis: int) -> Any:
    """Give a dim of an input.

    Raises:
        GraphValueError: it has no such axis.
    """
    shape = t.shape if isinstance(t, Variable) and t.type == "tensor_type" else None
    if shape is None:
        raise GraphValueError(f"input '{t.name}' does not say how many axes it has", fix="give it a shape first: graph.inputs[0].shape = [1, 'n']")
    if not -len(shape) <= axis < len(shape):
        there_is = f"its axes are 0 to {len(shape) - 1}" if shape else "it has none"
        raise GraphValueError(f"input '{t.name}' with shape {list(shape)} has no axis {axis}", fix=there_is)
    return shape[axis]


def _what_there_is(graph: Graph) -> str:
    """Tell what of the inputs can be bound."""
    known = sorted({d for t in graph.inputs for d in _names(t)})
    told = f"the inputs have {', '.join(map(repr, known)) or 'no symbolic dims'}"
    unnamed = [f"{t.name}:{i}" for t in graph.inputs for i, d in enumerate(_shape(t)) if not d and not is_static_dim(d)]
    if unnamed:
        more = ", …" if len(unnamed) > 5 else ""
        told += f"; dims without a name are bound by input and axis: {', '.join(unnamed[:5])}{more}"
    return told


def _all_names(graph: Graph) -> set[str]:
    """Give the names of dims that can be bound anywhere in the model, whole expressions included."""
    found: set[str] = set()
    for owner in walk.graphs(graph):
        for t in walk.tensors(owner):
            if isinstance(t, Constant):
                continue
            kind: ValueType | None = t.value_type if isinstance(t, Variable) and t.type != "tensor_type" else None
            shapes = [t.shape] if kind is None else []
            while kind is not None:
                shapes.append(kind.shape)
                kind = kind.element
            for dim in (d for shape in shapes for d in shape or () if isinstance(d, str) and d):
                found.add(dim)
    return found


def _bind(t: Tensor, sizes: Mapping[str, int]) -> None:
    assert isinstance(t, Variable)
    if t.type != "tensor_type":
        t.value_type = _bound_type(t.value_type, sizes)
        return
    shape = t.shape
    if shape is None or not any(isinstance(d, str) for d in shape):
        return
    bound = [_size(d, sizes) for d in shape]
    if bound != list(shape):
        t.shape = bound if isinstance(shape, list) else tuple(bound)


def _bound_type(kind: ValueType, sizes: Mapping[str, int]) -> ValueType:
    shape = None if kind.shape is None else [_size(d, sizes) for d in kind.shape]
    return ValueType(kind.kind, kind.dtype, shape, None if kind.element is None else _bound_type(kind.element, sizes), kind.name)


def _size(dim: Any, sizes: Mapping[str, int]) -> Any:
    if not isinstance(dim, str):
        return dim
    if dim in sizes:
        return sizes[dim]
    found = _evaluated(dim, sizes)
    return dim if found is None else found


def _shape(t: Tensor) -> list[Any]:
    return list(t.shape or ()) if isinstance(t, Variable) and t.type == "tensor_type" else []


def _names(t: Tensor) -> list[str]:
    return [d for d in _shape(t) if isinstance(d, str) and d]


_OPERATORS: dict[type, Callable[[int, int], int | None]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b if b else None,
}


def _evaluated(text: str, dims: Mapping[str, int]) -> int | None:
    """Give the value of an expression all of whose names are bound; None where it is none, or has others."""
    if len(text) > 200 or not any(c in text for c in "+-*/"):
        return None
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None

    def value(node: ast.expr) -> int | None:
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.Name):
            return dims.get(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            a, b = value(node.left), value(node.right)
            return None if a is None or b is None else _OPERATORS[type(node.op)](a, b)
        return None

    found = value(tree)
    return found if found is not None and found >= 0 else None
