"""Whether two graphs are equal up to names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.faults import explained
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph, same_value
from onnx_gs.ir.show import node_label
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph


def difference(a: Graph, b: Graph) -> str | None:
    """Give the first difference between two graphs, names of internal tensors and nodes aside; None when there is none.

    Nodes are compared in order, weights by content, names of inputs and outputs of the two graphs exactly.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> def double(name):
        ...     x, y = Variable("x"), Variable("y")
        ...     return Graph([Node("Add", name, inputs=[x, x], outputs=[y])], [x], [y])
        >>> difference(double("one"), double("two")) is None
        True
    """
    with explained(a):
        return _Pairing().graphs(a, b, "", public=True)


def isomorphic(a: Graph, b: Graph) -> bool:
    """Say whether two graphs are equal up to the names of internal tensors and nodes."""
    return difference(a, b) is None


class _Pairing:
    def __init__(self) -> None:
        self.forth: dict[int, Tensor] = {}
        self.back: dict[int, Tensor] = {}

    def tensors(self, x: Tensor, y: Tensor) -> str | None:
        if x.is_empty() or y.is_empty():
            return None if x.is_empty() and y.is_empty() else f"'{x.name}' against '{y.name}': one is omitted"
        if isinstance(x, Constant) or isinstance(y, Constant):
            if not (isinstance(x, Constant) and isinstance(y, Constant)):
                return f"'{x.name}' against '{y.name}': one is a constant"
            if dtypes.of(x) is not dtypes.of(y) or tuple(x.shape) != tuple(y.shape):
                return f"constants '{x.name}' {x.dtype}{x.shape} and '{y.name}' {y.dtype}{y.shape} differ in type"
            same = same_value(np.asarray(x.values), np.asarray(y.values)) or _both_nan(x.values, y.values)
            return None if same else f"constants '{x.name}' and '{y.name}' differ: {x.values!r:.80} and {y.values!r:.80}"
        known = self.forth.setdefault(id(x), y)
        other = self.back.setdefault(id(y), x)
        return None if known is y and other is x else f"'{x.name}' stands for '{known.name}' elsewhere, here for '{y.name}'"

    def lists(self, xs: list[Tensor], ys: list[Tensor], where: str) -> str | None:
        if len(xs) != len(ys):
            return f"{where}: {len(xs)} tensors against {len(ys)}"
        for x, y in zip(xs, ys):
            found = self.tensors(x, y)
            if found:
                return f"{where}: {found}"
        return None

    def graphs(self, a: Graph, b: Graph, where: str, *, public: bool = False) -> str | None:
        if public and [t.name for t in a.inputs] != [t.name for t in b.inputs]:
            return f"inputs {[t.name for t in a.inputs]} against {[t.name for t in b.inputs]}"
        if public and [t.name for t in a.outputs] != [t.name for t in b.outputs]:
            return f"outputs {[t.name for t in a.outputs]} against {[t.name for t in b.outputs]}"
        found = self.lists(a.inputs, b.inputs, f"{where}inputs")
        if found:
            return found
        if len(a.nodes) != len(b.nodes):
            return f"{where}{len(a.nodes)} nodes {[n.op for n in a.nodes][:12]} against {len(b.nodes)} {[n.op for n in b.nodes][:12]}"
        for index, (n, m) in enumerate(zip(a.nodes, b.nodes)):
            place = f"{where}{node_label(a, n, index)}: "
            same_domain = (n.domain in ONNX_DOMAINS and m.domain in ONNX_DOMAINS) or n.domain == m.domain
            if n.op != m.op or not same_domain or n.overload != m.overload:
                return f"{place}{n.domain}::{n.op} against {m.domain}::{m.op}"
            found = self.lists(n.inputs, m.inputs, f"{place}inputs") or self.attributes(n.attrs, m.attrs, place)
            found = found or self.lists(n.outputs, m.outputs, f"{place}outputs")
            if found:
                return found
        return self.lists(a.outputs, b.outputs, f"{where}outputs")

    def attributes(self, xs: dict[str, Any], ys: dict[str, Any], where: str) -> str | None:
        if xs.keys() != ys.keys():
            return f"{where}attributes {sorted(xs)} against {sorted(ys)}"
        for name, x in xs.items():
            y = ys[name]
            if is_graph(x) and is_graph(y):
                found = self.graphs(x, y, f"{where}{name} > ")
                if found:
                    return found
            elif isinstance(x, Constant) and isinstance(y, Constant):
                if not same_value(np.asarray(x.values), np.asarray(y.values)) or dtypes.of(x) is not dtypes.of(y):
                    return f"{where}attribute '{name}' differs"
            elif not same_value(x, y):
                return f"{where}attribute '{name}': {x!r:.60} against {y!r:.60}"
        return None


def _both_nan(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    return x.dtype == y.dtype and x.dtype != object and np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()
