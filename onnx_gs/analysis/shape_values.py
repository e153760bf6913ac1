"""What is known about shapes, and about what shape tensors hold, as integer expressions over the names of dims.

``ShapeFacts`` walks a model once, in order, and keeps for each tensor its element type, its shape and, for small integer and boolean tensors,
its contents. A size that nothing says gets a name of its own (``?7``), so that two tensors of one unknown size are known to agree. Facts stay
true under every rewrite that keeps values, so passes share them.

What a model declares of its inputs is taken as true, names of dims included; of other values the sizes that it declares in numbers are used
where nothing better is known, and a contradiction is noted in ``conflicts``.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import dim_expr, shape_inference
from onnx_gs.analysis.dim_expr import Dim, Expr, TooLarge
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents, Item
from onnx_gs.analysis.shape_functions import FUNCTIONS, Shape
from onnx_gs.errors import OnnxGsError
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.attribute import AttributeRef
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

class ShapeFacts:
    """Element types, shapes and contents of the tensors of a model, found on demand and kept.

    Args:
        root: the model's graph, or a function; bodies are included.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Constant, Graph, Node, Variable
        >>> x, s, d = Variable("x", np.float32, ("n", 4)), Variable("s"), Variable("d")
        >>> graph = Graph([Node("Shape", inputs=[x], outputs=[s]), Node("Mul", inputs=[s, Constant("two", np.array(2))], outputs=[d])], [x], [d])
        >>> facts = ShapeFacts(graph)
        >>> facts.contents(d).items
        (2*n, 8)
    """

    def __init__(self, root: Graph) -> None:
        """Read the declared inputs and walk the model."""
        self.root = root
        self.opset = root.opset
        self.conflicts: list[tuple[Tensor, str]] = []
        self._dtypes: dict[int, DataType | None] = {}
        self._shapes: dict[int, Shape | None] = {}
        self._contents: dict[int, Contents | None] = {}
        self.elements: dict[int, tuple[DataType | None, tuple[Dim | None, ...]]] = {}  # of lists: what each holds; None for a dim that may differ
        self._kept: list[Any] = []  # ids are keys, so what they stand for stays alive
        self._count = itertools.count()
        self._in_function = hasattr(root, "unique_id")
        self._fallback: dict[int, tuple[DataType | None, Shape | None]] | None = None
        for t in root.inputs:
            self._declare_input(t)
        self._visit_graph(root)

    # -- asking -----------------------------------------------------------------------------------

    def shape(self, tensor: Tensor) -> Shape | None:
        """Give the dims of a tensor, each a number or an expression; None for an unknown rank."""
        try:
            return self._shapes[id(tensor)]
        except KeyError:
            self._ensure(tensor)
            return self._shapes.get(id(tensor))

    def rank(self, tensor: Tensor) -> int | None:
        """Give the number of dims."""
        found = self.shape(tensor)
        return None if found is None else len(found)

    def dtype(self, tensor: Tensor) -> DataType | None:
        """Give the element type."""
        try:
            return self._dtypes[id(tensor)]
        except KeyError:
            self._ensure(tensor)
            return self._dtypes.get(id(tensor))

    def contents(self, tensor: Tensor) -> Contents | None:
        """Give what a small integer or boolean tensor holds, as far as it is known; None where nothing is."""
        if isinstance(tensor, Constant):
            try:
                return self._contents[id(tensor)]
            except KeyError:
                return self._constant_contents(tensor)
        if id(tensor) not in self._shapes:
            self._ensure(tensor)
        return self._contents.get(id(tensor))

    def integers(self, tensor: Tensor) -> tuple[int, ...] | None:
        """Give the elements of a tensor that holds known integers, else None."""
        found = self.contents(tensor)
        if found is None or any(type(i) is not int for i in found.items):
            return None
        return found.items  # type: ignore[return-value]

    def floats(self, tensor: Tensor) -> tuple[float, ...] | None:
        """Give the elements of a small constant of floats, such as the scales of ``Resize``, else None."""
        if not isinstance(tensor, Constant) or tensor.nbytes > MAX_ITEMS or (known := dtypes.of(tensor)) is None or known.kind != "float":
            return None
        return tuple(np.asarray(tensor.values).astype(np.float64).ravel().tolist())

    def scalar(self, tensor: Tensor) -> Item:
        """Give the only element of a tensor, or None where it is not known or not the only one."""
        found = self.contents(tensor)
        return found.items[0] if found is not None and len(found.items) == 1 else None

    # -- telling ----------------------------------------------------------------------------------

    def fresh(self) -> Expr:
        """Give a size that nothing is known about."""
        return dim_expr.symbol(f"?{next(self._count)}")

    def unknown(self, rank: int) -> Shape:
        """Give a shape of known rank and unknown dims."""
        return tuple(self.fresh() for _ in range(rank))

    def tell(self, tensor: Tensor, dtype: DataType | None, shape: Shape | None, contents: Contents | None = None) -> None:
        """Note what is known about a tensor; what the model declares fills the gaps."""
        if not tensor._name:
            return
        key = id(tensor)
        self._kept.append(tensor)
        if not isinstance(tensor, Constant):
            if shape is None or dtype is None:
                dtype, shape = self._filled(tensor, dtype, shape)
            else:
                for d in shape:
                    if type(d) is not int and _is_unknown(d):
                        dtype, shape = self._filled(tensor, dtype, shape)
                        break
        self._dtypes[key] = dtype
        self._shapes[key] = shape
        if contents is not None and len(contents.items) <= MAX_ITEMS and any(i is not None for i in contents.items):
            self._contents[key] = contents

    def _filled(self, tensor: Tensor, dtype: DataType | None, shape: Shape | None) -> tuple[DataType | None, Shape | None]:
        if dtype is None:
            dtype = dtypes.of(tensor)
        declared = tensor.shape if tensor.type == "tensor_type" else None
        if declared is None:
            return dtype, shape
        if shape is None:
            return dtype, tuple(int(d) if is_static_dim(d) else self.fresh() for d in declared)
        if len(declared) != len(shape):
            self.conflicts.append((tensor, f"declared with {len(declared)} dims, but it has {len(shape)}"))
            return dtype, shape
        return dtype, tuple(int(d) if _is_unknown(known) and is_static_dim(d) else known for known, d in zip(shape, declared))

    def _declare_input(self, tensor: Tensor) -> None:
        if isinstance(tensor, Constant):
            return
        declared = tensor.shape if tensor.type == "tensor_type" else None
        shape: Shape | None = None
        if declared is not None:
            shape = tuple(int(d) if is_static_dim(d) else self._named(d) for d in declared)
        self._kept.append(tensor)
        self._dtypes[id(tensor)] = dtypes.of(tensor)
        self._shapes[id(tensor)] = shape

    def _named(self, dim: Any) -> Expr:
        return dim_expr.symbol(dim) if isinstance(dim, str) and dim and not dim.startswith("?") else self.fresh()

    def _constant_contents(self, tensor: Constant) -> Contents | None:
        self._kept.append(tensor)
        known = dtypes.of(tensor)
        shape = tensor.shape
        count = 1
        for d in shape:
            count *= d
        found = None
        if known is not None and count <= MAX_ITEMS and known.kind in {"int", "bool", "uint"} and known.bits >= 8:
            found = Contents(shape, tuple(np.asarray(tensor.values).ravel().tolist()))
        self._contents[id(tensor)] = found
        self._shapes[id(tensor)] = shape
        self._dtypes[id(tensor)] = known
        return found

    # -- walking ----------------------------------------------------------------------------------

    def _visit_graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            self.visit(node)

    def _ensure(self, tensor: Tensor) -> None:
        """Find the facts of a tensor that was not met in order: of a constant, or of a node that a pass has put in."""
        if isinstance(tensor, Constant):
            self._kept.append(tensor)
            self._dtypes[id(tensor)] = dtypes.of(tensor)
            self._shapes[id(tensor)] = tensor.shape
            return
        pending = [tensor]
        started: set[int] = set()
        while pending:
            current = pending[-1]
            if id(current) in self._shapes:
                pending.pop()
                continue
            producer = current._inputs[0] if current._inputs else None
            if producer is None or id(producer) in started or not current._name:
                pending.pop()
                if producer is not None and current._name:
                    self.visit(producer)
                if id(current) not in self._shapes:
                    self._kept.append(current)
                    self._dtypes[id(current)], self._shapes[id(current)] = self._filled(current, None, None) if current._name else (None, None)
                continue
            started.add(id(producer))
            pending.extend(t for t in producer._inputs if id(t) not in self._shapes and not isinstance(t, Constant))

    def visit(self, node: Node) -> None:
        """Find the facts of a node's outputs from those of its inputs."""
        key = node.op if node.domain in ONNX_DOMAINS else (node.domain, node.op)
        function = FUNCTIONS.get(key)
        if function is not None and not (self._in_function and any(isinstance(v, AttributeRef) for v in node.attrs.values())):
            # malformed, or beyond what is followed: nothing is known then
            with suppress(TooLarge, IndexError, TypeError, ValueError, KeyError, ArithmeticError):
                function(self, node)
        for t in node._outputs:
            if t._name and id(t) not in self._shapes:
                self._tell_from_fallback(node, t)

    def _tell_from_fallback(self, node: Node, tensor: Tensor) -> None:
        """Tell what ONNX's own inference says where there is no function for the operator in the table."""
        found = None
        if not self._in_function and tensor.type == "tensor_type" and self._is_foreign(node):
            if self._fallback is None:
                self._fallback = self._inferred()
            found = self._fallback.get(id(tensor))
        self.tell(tensor, *(found or (None, None)))

    def _is_foreign(self, node: Node) -> bool:
        if node.domain in ONNX_DOMAINS:
            return node.op not in FUNCTIONS or node.op == "SequenceAt"
        return any(f.name == node.op and f.domain == node.domain for f in self.root.functions)

    def _inferred(self) -> dict[int, tuple[DataType | None, Shape | None]]:
        """Run ONNX's inference on a copy; give what it says by the id of the original tensor."""
        twin = self.root.copy()
        try:
            shape_inference.infer(twin)
        except OnnxGsError:
            return {}
        names = {d for t in self.root.inputs if t.type == "tensor_type" for d in t.shape or () if isinstance(d, str)}
        found: dict[int, tuple[DataType | None, Shape | None]] = {}
        for graph, other in zip(walk.graphs(self.root), walk.graphs(twin)):
            for node, copied in zip(graph.nodes, other.nodes):
                for t, u in zip(node._outputs, copied._outputs):
                    if t._name and u.type == "tensor_type" and u.shape is not None:
                        shape = tuple(int(d) if is_static_dim(d) else self._named(d if d in names else None) for d in u.shape)
                        found[id(t)] = (dtypes.of(u), shape)
        return found

    # -- bodies -----------------------------------------------------------------------------------

    def visit_body(self, body: Graph, shapes: list[tuple[DataType | None, Shape | None]]) -> list[tuple[DataType | None, Shape | None]]:
        """Walk a body with its inputs' types and shapes given; give those of its outputs."""
        for inner in walk.graphs(body):
            for t in itertools.chain(inner.inputs, *(n._outputs for n in inner.nodes)):
                for table in (self._shapes, self._dtypes, self._contents, self.elements):
                    table.pop(id(t), None)
        # not filled up from what the body declares: exporters declare of a carried value the size that it has in the first trip
        for t, (dtype, shape) in zip(body.inputs, shapes):
            if t._name:
                self._kept.append(t)
                self._dtypes[id(t)] = dtypes.of(t) if dtype is None else dtype
                self._shapes[id(t)] = shape
        for t in body.inputs[len(shapes) :]:
            self.tell(t, None, None)
        self._visit_graph(body)
        return [(self.dtype(t), self.shape(t)) for t in body.outputs]

    def tell_inside(self, body: Graph) -> None:
        """Walk a body about whose inputs only the declarations are known."""
        self.visit_body(body, [])


def _is_unknown(dim: Dim) -> bool:
    return isinstance(dim, Expr) and (name := dim_expr.as_name(dim)) is not None and name.startswith("?")


# -- the table --------------------------------------------------------------------------------------

def register_shape_function(domain: str, op: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how an operator of yours shapes its outputs, so that inference and folding go on behind it.

    The function gets the node and the shapes of its inputs (tuples of numbers and expressions that can be added and multiplied; None where the
    rank is not known), and returns a list with one entry an output: a shape, a pair of element type and shape, or None.
    A plain shape means the element type of the first input.

    Args:
        domain: the operator's domain.
        op: the operator.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> @register_shape_function("my.domain", "Pair")
        ... def pair(node, shapes):
        ...     return [(shapes[0][0] * 2, *shapes[0][1:])]
        >>> x, y = Variable("x", np.float32, ("n", 3)), Variable("y")
        >>> ShapeFacts(Graph([Node("Pair", domain="my.domain", inputs=[x], outputs=[y])], [x], [y])).shape(y)
        (2*n, 3)
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        def told(facts: ShapeFacts, node: Node) -> None:
            answer = function(node, [facts.shape(t) if t._name else None for t in node._inputs])
            for t, entry in zip(node._outputs, answer):
                if entry is None:
                    continue
                dtype, shape = entry if _is_typed(entry) else (facts.dtype(node._inputs[0]), entry)
                facts.tell(t, dtypes.find(dtype), None if shape is None else tuple(_as_dim(facts, d) for d in shape))

        FUNCTIONS[(domain, op) if domain not in ONNX_DOMAINS else op] = told
        return function

    return enter


def _is_typed(entry: Any) -> bool:
    return len(entry) == 2 and (entry[1] is None or isinstance(entry[1], (tuple, list)))


def _as_dim(facts: ShapeFacts, dim: Any) -> Dim:
    if isinstance(dim, Expr):
        return dim
    if isinstance(dim, str):
        return dim_expr.symbol(dim)
    return facts.fresh() if dim is None else int(dim)


def public_shape(shape: Shape | None) -> list[int | str | None] | None:
    """Spell a shape as the model does: numbers, names and expressions as text; None for a size that nothing says."""
    if shape is None:
        return None
    return [d if isinstance(d, int) else None if any(n.startswith("?") for n in dim_expr.names_in(d)) else str(d) for d in shape]

