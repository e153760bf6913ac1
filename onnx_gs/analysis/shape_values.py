"""What is known about shapes, and about what shape tensors hold, as integer expressions over the names of dims.

``ShapeFacts`` walks a model once, in order, and keeps for each tensor its element type, its shape and, for small integer and boolean tensors,
its contents. A size that nothing says gets a name of its own (``?7``), so that two tensors of one unknown size are known to agree. Facts stay
true under every rewrite that keeps values, so passes share them.

What a model declares of its inputs is taken as true, names of dims included; of other values the sizes that it declares in numbers are used
where nothing better is known, and a contradiction is noted in ``conflicts``.
"""

from __future__ import annotations

import itertools
import logging
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import dim_expr, shape_inference
from onnx_gs.analysis.dim_expr import Dim, Expr, TooLarge
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents, Item
from onnx_gs.analysis.shape_functions import FUNCTIONS, HAND_ON, LOOKS_AT, READ_FLOATS, WITHOUT_ATTRIBUTES, Shape, ShapeFunction
from onnx_gs.errors import GraphError, OnnxGsError
from onnx_gs.ir import dtypes, order, source, walk
from onnx_gs.ir.attribute import has_reference
from onnx_gs.ir.function import Function
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.ir.values import LazyValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

LOGGER = logging.getLogger("onnx_gs")
#: What shape functions raise of a node that is malformed, or beyond what is followed: nothing is known of its outputs then.
_BEYOND = (TooLarge, IndexError, TypeError, ValueError, KeyError, ArithmeticError)


class Fact:
    """What is known about a tensor. One object for all tensors of which the same is known, so that it stands for them in keys.

    Attributes:
        dtype: its element type.
        shape: its dims.
        contents: what it holds.
        has_gaps: whether what the model declares may add to this.
        has_symbols: whether a dim is no number.
        is_symbolic: whether everything is known about what it holds, and something of it by name only.
        is_decided: whether what it holds is known as numbers, of whole bytes each.
    """

    __slots__ = ("contents", "dtype", "has_gaps", "has_symbols", "is_decided", "is_symbolic", "shape")

    def __init__(self, dtype: DataType | None, shape: Shape | None, contents: Contents | None) -> None:
        self.dtype = dtype
        self.shape = shape
        self.contents = contents
        self.has_gaps = dtype is None or shape is None
        self.has_symbols = False
        for d in shape or ():
            if type(d) is not int:
                self.has_symbols = True
                if _is_unknown(d):
                    self.has_gaps = True
        self.is_symbolic = contents is not None and None not in contents.items and any(isinstance(i, Expr) for i in contents.items)
        self.is_decided = contents is not None and contents.is_known and dtype is not None and dtype.bits >= 8


_NOTHING = Fact(None, None, None)


class ShapeFacts:
    """Element types, shapes and contents of the tensors of a model, found on demand and kept.

    Models repeat their layers: what an operator makes of the same attributes and the same facts is found once.

    Args:
        root: the model's graph, or a function; bodies are included.
        former: facts of the same model, or of another: what they found about operators is not found again.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Constant, Graph, Node, Variable
        >>> x, s, d = Variable("x", np.float32, ("n", 4)), Variable("s"), Variable("d")
        >>> graph = Graph([Node("Shape", inputs=[x], outputs=[s]), Node("Mul", inputs=[s, Constant("two", np.array(2))], outputs=[d])], [x], [d])
        >>> facts = ShapeFacts(graph)
        >>> facts.contents(d).items
        (2*n, 8)
    """

    def __init__(self, root: Graph, former: ShapeFacts | None = None) -> None:
        """Read the declared inputs and walk the model."""
        self.root = root
        self.opset = root.opset
        self.conflicts: list[tuple[Tensor, str]] = []
        self._facts: dict[int, Fact] = {}
        self._read: set[int] = set()  # constants whose contents were looked at
        self.elements: dict[int, tuple[DataType | None, tuple[Dim | None, ...]]] = {}  # of lists: what each holds; None for a dim that may differ
        self._open: set[int] = set()  # ids of nodes that are being visited out of order
        self._kept: list[Any] = []  # ids are keys, so what they stand for stays alive
        self._count = itertools.count()
        self._in_function = isinstance(root, Function)
        self._fallback: dict[int, tuple[DataType | None, Shape | None]] | None = None
        self._same: dict[Any, Fact] = {} if former is None else former._same
        self._made: dict[Any, list[Fact | None]] = {} if former is None or former.opset != self.opset else former._made
        self._by_bytes: dict[tuple[DataType | None, tuple[int, ...], bytes], Fact] = {}  # of weights by the bytes that the model stores
        self._own = 0  # grows with all that holds for one node only, and not for another with the same attributes and facts
        for t in root.inputs:
            self._declare_input(t)
        self._visit_graph(root)

    # -- asking -----------------------------------------------------------------------------------

    def _fact(self, tensor: Tensor) -> Fact:
        """Find out about a tensor that was not met in order."""
        if isinstance(tensor, Constant):
            return self._constant(tensor)
        self._ensure(tensor)
        return self._facts.get(id(tensor), _NOTHING)

    def shape(self, tensor: Tensor) -> Shape | None:
        """Give the dims of a tensor, each a number or an expression; None for an unknown rank."""
        try:
            return self._facts[id(tensor)].shape
        except KeyError:
            return self._fact(tensor).shape

    def rank(self, tensor: Tensor) -> int | None:
        """Give the number of dims."""
        found = self.shape(tensor)
        return None if found is None else len(found)

    def dtype(self, tensor: Tensor) -> DataType | None:
        """Give the element type."""
        try:
            return self._facts[id(tensor)].dtype
        except KeyError:
            return self._fact(tensor).dtype

    def contents(self, tensor: Tensor) -> Contents | None:
        """Give what a small integer or boolean tensor holds, as far as it is known; None where nothing is."""
        try:
            found = self._facts[id(tensor)].contents
        except KeyError:
            found = self._fact(tensor).contents
        if found is None and isinstance(tensor, Constant) and id(tensor) not in self._read:  # it became one since
            return self._constant(tensor).contents
        return found

    def known(self, tensor: Tensor) -> Fact:
        """Give all that is known about a tensor."""
        return self._facts.get(id(tensor)) or self._fact(tensor)

    def met(self, tensor: Tensor) -> Fact:
        """Give what is known about a tensor that was met, and nothing about others: nothing is looked for."""
        return self._facts.get(id(tensor), _NOTHING)

    def decided_ids(self) -> set[int]:
        """Give the ids of the tensors that were met and whose contents are known."""
        return {key for key, fact in self._facts.items() if fact.is_decided}

    def is_outdated_by(self, weight: Constant) -> bool:
        """Say whether a weight was computed when it was met, and may tell more about the shapes behind it now."""
        met = self._facts.get(id(weight))
        if met is None or met.is_decided or id(weight) in self._read:
            return False
        if met.has_gaps or met.has_symbols:
            return True
        known = dtypes.of(weight)
        if known is not None and known.kind == "float":
            return any(reader.op in READ_FLOATS for reader in weight._outputs)
        return _may_hold_sizes(known, weight.shape)

    @property
    def has_symbolic_contents(self) -> bool:
        """Say whether a tensor that was met holds something that is known by name only."""
        return any(fact.is_symbolic for fact in self._facts.values())

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
        self._own += 1
        return tuple(np.asarray(tensor.values).astype(np.float64).ravel().tolist())

    def scalar(self, tensor: Tensor) -> Item:
        """Give the only element of a tensor, or None where it is not known or not the only one."""
        found = self.contents(tensor)
        return found.items[0] if found is not None and len(found.items) == 1 else None

    # -- telling ----------------------------------------------------------------------------------

    def fresh(self) -> Expr:
        """Give a size that nothing is known about."""
        self._own += 1
        return dim_expr.symbol(f"?{next(self._count)}")

    def unknown(self, rank: int) -> Shape:
        """Give a shape of known rank and unknown dims."""
        return tuple(self.fresh() for _ in range(rank))

    def tell(self, tensor: Tensor, dtype: DataType | None, shape: Shape | None, contents: Contents | None = None) -> None:
        """Note what is known about a tensor; what the model declares fills the gaps."""
        if not tensor._name:
            return
        if contents is not None:
            items = contents.items
            if len(items) > MAX_ITEMS or not items or (items[0] is None and all(i is None for i in items)):
                contents = None
        self._note(tensor, self._shared(dtype, shape, contents))

    def _with_declared(self, tensor: Tensor, fact: Fact) -> Fact:
        """Fill gaps by what the model declares of this very tensor."""
        conflicts = len(self.conflicts)
        dtype, shape = self._filled(tensor, fact.dtype, fact.shape)
        if dtype is fact.dtype and shape == fact.shape and len(self.conflicts) == conflicts:
            return fact
        self._own += 1
        return self._shared(dtype, shape, fact.contents)

    def only_here(self) -> None:
        """Note that what a shape function is telling comes from more than attributes and facts, so that it holds for this node only."""
        self._own += 1

    def _shared(self, dtype: DataType | None, shape: Shape | None, contents: Contents | None) -> Fact:
        """Give the one object that says this."""
        key: Any = (None if dtype is None else dtype.number, shape)
        if contents is not None:
            key = (key, contents, tuple(map(type, contents.items)))  # True is no 1
        found = self._same.get(key)
        if found is None:
            found = self._same[key] = Fact(dtype, shape, contents)
        return found

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

    def declared(self, tensor: Tensor) -> Shape | None:
        """Give the shape that the model declares of an input, names of dims included; None where it declares none."""
        declared = tensor.shape if tensor.type == "tensor_type" else None
        return None if declared is None else tuple(int(d) if is_static_dim(d) else self._named(d) for d in declared)

    def _declare_input(self, tensor: Tensor) -> None:
        if isinstance(tensor, Constant):
            return
        shape = self.declared(tensor)
        self._kept.append(tensor)
        self._facts[id(tensor)] = self._shared(dtypes.of(tensor), shape, None)

    def _named(self, dim: Any) -> Expr:
        return dim_expr.symbol(dim) if isinstance(dim, str) and dim and not dim.startswith("?") else self.fresh()

    def _constant(self, tensor: Constant) -> Fact:
        """Look at a constant: its numbers are read where they may be sizes."""
        self._kept.append(tensor)
        self._read.add(id(tensor))
        stored = tensor._values
        known = dtypes.find(stored.dtype)
        shape = tuple(stored.shape)
        if not _may_hold_sizes(known, shape):
            found = self._facts[id(tensor)] = self._shared(known, shape, None)
            return found
        raw = stored.raw() if isinstance(stored, LazyValues) else None
        same = None if raw is None else self._by_bytes.get((known, shape, raw))  # models store the same sizes many times
        if same is None:
            same = self._shared(known, shape, Contents(shape, tuple(np.asarray(tensor.values).ravel().tolist())))
            if raw is not None:
                self._by_bytes[known, shape, raw] = same
        self._facts[id(tensor)] = same
        return same

    # -- walking ----------------------------------------------------------------------------------

    def _visit_graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            self.visit(node)

    def _ensure(self, tensor: Tensor) -> None:
        """Find the facts of a tensor that was not met in order, as of a node that a pass has put in."""
        pending = [tensor]
        started: set[int] = set()
        while pending:
            current = pending[-1]
            if id(current) in self._facts:
                pending.pop()
                continue
            producer = current._inputs[0] if current._inputs else None
            if producer is None or id(producer) in started or not current._name:
                pending.pop()
                if producer is not None and current._name:
                    if id(producer) in self._open:
                        self._fail_on_cycle()
                    self._open.add(id(producer))
                    self.visit(producer)
                    self._open.discard(id(producer))
                if id(current) not in self._facts:
                    self._kept.append(current)
                    self._facts[id(current)] = self._shared(*self._filled(current, None, None), None) if current._name else _NOTHING
                continue
            started.add(id(producer))
            pending.extend(t for t in producer._inputs if id(t) not in self._facts and not isinstance(t, Constant))

    def _fail_on_cycle(self) -> None:
        order.require_acyclic(self.root)
        raise GraphError("a node reads what depends on it", where=f"graph '{self.root.name}'", fix="sort the graph")

    def visit(self, node: Node) -> None:
        """Find the facts of a node's outputs from those of its inputs."""
        op = node.op if node.domain in ONNX_DOMAINS else (node.domain, node.op)
        function = FUNCTIONS.get(op)
        facts = self._facts
        if function is not None and not (self._in_function and has_reference(node.attrs)):
            if function in HAND_ON and len(node._outputs) == 1 and node._inputs:
                self._hand_on(node._inputs[0], node._outputs[0])
                return
            key = self._key(op, node, function)
            made = None if key is None else self._made.get(key)
            if made is not None:
                for t, fact in zip(node._outputs, made):
                    if fact is not None:
                        self._note(t, fact)
                return
            own = self._own
            try:
                function(self, node)
            except _BEYOND:
                key = None
            if key is not None and own == self._own:
                told = [facts.get(id(t)) for t in node._outputs]
                if None not in told or all(fact is not None or not t._name for fact, t in zip(told, node._outputs)):
                    self._made[key] = told
                    return
        for t in node._outputs:
            if t._name and id(t) not in facts:
                self._tell_from_fallback(node, t)

    def _hand_on(self, x: Tensor, y: Tensor) -> None:
        """Note that a tensor has the type and shape of another."""
        fact = self._facts.get(id(x)) or self._fact(x)
        if fact.contents is not None:
            fact = self._shared(fact.dtype, fact.shape, None)
        self._note(y, fact)

    def _note(self, tensor: Tensor, fact: Fact) -> None:
        """Note a fact about a tensor; what the model declares fills gaps."""
        if tensor._name:
            if fact.has_gaps and not isinstance(tensor, Constant):
                fact = self._with_declared(tensor, fact)
            self._kept.append(tensor)
            self._facts[id(tensor)] = fact

    def _key(self, op: Any, node: Node, function: ShapeFunction) -> tuple[Any, ...] | None:
        """Give all that a shape function goes by: operator, attributes, the facts of the inputs, and which outputs there are; None for some nodes."""
        signature: tuple[Any, ...] | None = ()
        if function not in WITHOUT_ATTRIBUTES:
            signature = source.codec().signature(node._source) if node._attrs is None else None  # which spares many nodes of an import decoding
            if signature is None and (signature := _signature(node.attrs)) is None:
                return None
        inputs: list[Tensor] = node._inputs
        outputs = node._outputs
        if function in LOOKS_AT:
            inputs = inputs[: LOOKS_AT[function]]
        elif op in READ_FLOATS and any(isinstance(t, Constant) for t in inputs):
            return None
        named = 1 if len(outputs) == 1 else tuple([bool(t._name) for t in outputs])
        facts = self._facts
        return (op, signature, named, *[facts.get(id(t)) or self._fact(t) for t in inputs])

    def _tell_from_fallback(self, node: Node, tensor: Tensor) -> None:
        """Tell what ONNX's own inference says where there is no function for the operator in the table."""
        self._own += 1
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
                self._facts.pop(id(t), None)
                self.elements.pop(id(t), None)
        # not filled up from what the body declares: exporters declare of a carried value the size that it has in the first trip
        for t, (dtype, shape) in zip(body.inputs, shapes):
            if t._name:
                self._kept.append(t)
                self._facts[id(t)] = self._shared(dtypes.of(t) if dtype is None else dtype, shape, None)
        for t in body.inputs[len(shapes) :]:
            self.tell(t, None, None)
        self._visit_graph(body)
        return [(self.dtype(t), self.shape(t)) for t in body.outputs]

    @contextmanager
    def supposing(self) -> Iterator[None]:
        """Forget at the end what is found inside the ``with``: for a look at bodies under suppositions about their inputs."""
        before = dict(self._facts), dict(self.elements), len(self.conflicts)
        try:
            yield
        finally:
            self._facts, self.elements = before[:2]
            del self.conflicts[before[2] :]

    def tell_inside(self, body: Graph) -> None:
        """Walk a body about whose inputs only the declarations are known."""
        self.visit_body(body, [])


def _may_hold_sizes(known: DataType | None, shape: tuple[int, ...]) -> bool:
    """Say whether what a weight holds may tell about shapes."""
    return known is not None and known.kind in {"int", "bool", "uint"} and known.bits >= 8 and math.prod(shape) <= MAX_ITEMS


_PLAIN = frozenset({int, float, str, bytes, bool})


def _signature(attrs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Give attributes as a key; None where some are more than numbers, texts and lists of these."""
    parts: list[Any] = []
    for name, value in attrs.items():
        kind = type(value)
        if kind in _PLAIN:
            parts += (name, value)
        elif kind is list and _PLAIN.issuperset(map(type, value)):
            parts += (name, *value, list)  # which ends it
        else:
            return None
    return tuple(parts)


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
            facts.only_here()  # it may go by anything
            try:
                answer = function(node, [facts.shape(t) if t._name else None for t in node._inputs])
                for t, entry in zip(node._outputs, answer):
                    if entry is None:
                        continue
                    dtype, shape = entry if _is_typed(entry) else (facts.dtype(node._inputs[0]), entry)
                    facts.tell(t, dtypes.find(dtype), None if shape is None else tuple(_as_dim(facts, d) for d in shape))
            except Exception as error:  # noqa: BLE001 - it is not ours, and nothing is known of the outputs then
                what = f"{type(error).__name__}: {error}"
                LOGGER.warning("the shape function of %s::%s fails at node '%s': %s", domain, op, node.name or node.op, what)

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
