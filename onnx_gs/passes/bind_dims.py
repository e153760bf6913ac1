"""Symbolic dims get their sizes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.errors import GraphValueError
from onnx_gs.ir import walk
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.ir.types import ValueType
from onnx_gs.passes.base import Entry, Pass, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx_gs.ir import Graph
    from onnx_gs.ir.tensor import Tensor


@dataclass(frozen=True)
class BindDims(Pass):
    """Give symbolic dims their sizes.

    Matches:   every declared dim of one of the names, of inputs, outputs and all values between, bodies included; also an expression in the names,
               such as ``2*batch + 1``, as exporters write it.
    Rewrites:  the declared sizes. What is computed from them folds afterwards.
    Declines:  nothing.

    Args:
        dims: sizes by name.
    """

    name: ClassVar[str] = "bind-dims"
    dims: Mapping[str, int] = field(default_factory=dict)

    def run(self, graph: Graph, report: Report) -> None:
        """Write the sizes down.

        Raises:
            GraphValueError: a size is no whole number of at least 0, or no dim of the model has the name.
        """
        for name, size in self.dims.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise GraphValueError(f"dim '{name}' cannot be {size!r}", fix="give a whole number of at least 0")
        missing = set(self.dims)
        seen: set[int] = set()
        for owner in walk.graphs(graph):
            for t in walk.tensors(owner):
                if isinstance(t, Constant) or id(t) in seen:
                    continue
                seen.add(id(t))
                self._bind(t, missing)
        if missing:
            known = sorted({d for t in graph.inputs for d in _names(t)})
            there_is = ", ".join(map(repr, known)) or "no symbolic dims"
            raise GraphValueError(f"no dim is named {', '.join(map(repr, sorted(missing)))}", fix=f"the inputs have {there_is}")
        for t in graph.inputs:
            report.rewritten.append(Entry(self.name, t.name, "input", f"graph '{graph.name}' > input '{t.name}'", f"shape {list(t.shape or ())}"))

    def _bind(self, t: Tensor, missing: set[str]) -> None:
        assert isinstance(t, Variable)
        if t.type != "tensor_type":
            t.value_type = self._bound_type(t.value_type, missing)
            return
        shape = t.shape
        if shape is None or not any(isinstance(d, str) for d in shape):
            return
        bound = [self._size(d, missing) for d in shape]
        if bound != list(shape):
            t.shape = bound if isinstance(shape, list) else tuple(bound)

    def _bound_type(self, kind: ValueType, missing: set[str]) -> ValueType:
        shape = None if kind.shape is None else [self._size(d, missing) for d in kind.shape]
        return ValueType(kind.kind, kind.dtype, shape, None if kind.element is None else self._bound_type(kind.element, missing), kind.name)

    def _size(self, dim: Any, missing: set[str]) -> Any:
        if not isinstance(dim, str):
            return dim
        if dim in self.dims:
            missing.discard(dim)
            return self.dims[dim]
        found = _evaluated(dim, self.dims)
        return dim if found is None else found


def _names(t: Tensor) -> list[str]:
    return [d for d in t.shape or () if isinstance(d, str)] if isinstance(t, Variable) and t.type == "tensor_type" else []


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
