"""Nodes for rewrites: ``op.Add(x, y)`` gives a tensor and remembers the node; checked against the operator's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import GraphTypeError, GraphValueError
from onnx_gs.ir import Constant, Node, Tensor, Variable
from onnx_gs.ops import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx_gs.ir.names import Names


class Builder:
    """Makes nodes in order; they are in ``nodes``, for the caller to put into a graph.

    Args:
        names: gives fresh names.
        opset: version of ONNX's own operators.
        prefix: what the names of new tensors and nodes begin with.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> from onnx_gs.ir.names import Names
        >>> x = Variable("x", np.float32, (2,))
        >>> op = Builder(Names(Graph(inputs=[x])), 18, prefix="twice")
        >>> y = op.Mul(op.Add(x, x), np.float32(0.5))
        >>> [n.op for n in op.nodes], y.name
        (['Add', 'Mul'], 'twice_Mul')
    """

    def __init__(self, names: Names, opset: int, prefix: str = "") -> None:
        """Start without nodes."""
        self.names = names
        self.opset = opset
        self.prefix = prefix
        self.nodes: list[Node] = []

    def constant(self, values: Any, name: str = "constant") -> Constant:
        """Make a weight of an array, or of Python numbers (ints as int64, floats as float32)."""
        array = values if isinstance(values, (np.ndarray, np.generic)) else _array(values)
        return Constant(self.names.fresh(self._name(name)), np.asarray(array))

    def node(
        self, op: str, *inputs: Any, outputs: int | Sequence[Tensor] = 1, domain: str | None = None, name: str | None = None, **attrs: Any
    ) -> list[Tensor]:
        """Make a node and give its outputs.

        Args:
            op: the operator.
            inputs: tensors; None for an omitted one; arrays and numbers become weights.
            outputs: how many, or the very tensors.
            domain: the operator's domain.
            name: what to name node and outputs after, by default the operator.
            attrs: attributes; None leaves one out.

        Raises:
            GraphValueError: the operator does not take so many inputs or outputs, or has no such attribute at this opset.
        """
        wish = self._name(name or op)
        read = [self._input(x, wish) for x in inputs]
        while read and not read[-1].name:
            read.pop()
        made = [Variable(self.names.fresh(wish)) for _ in range(outputs)] if isinstance(outputs, int) else list(outputs)
        given = {k: v for k, v in attrs.items() if v is not None}
        if domain in {None, "", "ai.onnx"}:
            _check(op, self.opset, len(read), len(made), given)
        new = Node(op, self.names.fresh(wish), given, read, made, domain)
        self.nodes.append(new)
        return list(made)

    def __getattr__(self, op: str) -> Callable[..., Any]:
        """Give what makes a node of the operator; it returns the one output, or the list of several."""
        if not op[:1].isupper():
            raise AttributeError(op)

        def make(*inputs: Any, **options: Any) -> Any:
            made = self.node(op, *inputs, **options)
            return made[0] if len(made) == 1 else made

        return make

    def _name(self, wish: str) -> str:
        return f"{self.prefix}_{wish}" if self.prefix else wish

    def _input(self, x: Any, wish: str) -> Tensor:
        if x is None:
            return Variable.empty()
        return x if isinstance(x, Tensor) else self.constant(x, f"{wish}_constant")


def _array(values: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.dtype == object:
        raise GraphTypeError(f"{values!r:.60} is no array of numbers")
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    return array.astype(np.int64) if array.dtype.kind in "iu" or array.size == 0 else array


def _check(op: str, opset: int, inputs: int, outputs: int, attrs: dict[str, Any]) -> None:
    known = schema.find(op, opset)
    if known is None:
        raise GraphValueError(f"ONNX has no operator '{op}' at opset {opset}")
    if not known.min_inputs <= inputs <= known.max_inputs:
        raise GraphValueError(f"'{op}' at opset {opset} takes {known.min_inputs} to {known.max_inputs} inputs, not {inputs}")
    if not known.min_outputs <= outputs <= known.max_outputs:
        raise GraphValueError(f"'{op}' at opset {opset} gives {known.min_outputs} to {known.max_outputs} outputs, not {outputs}")
    strange = [name for name in attrs if name not in known.attributes]
    if strange:
        raise GraphValueError(f"'{op}' at opset {opset} has no attribute '{strange[0]}'", fix=f"it has {sorted(known.attributes)}")
    missing = [a.name for a in known.attributes.values() if a.is_required and a.name not in attrs]
    if missing:
        raise GraphValueError(f"'{op}' at opset {opset} needs attribute '{missing[0]}'")
