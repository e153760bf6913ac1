"""A fixed axis of an input becomes symbolic: the opposite of binding a dim."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.dim_expr import Dim, Expr
from onnx_gs.analysis.shape_values import ShapeFacts, public_shape
from onnx_gs.errors import GraphValueError
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.names import Names
from onnx_gs.ir.node import Node
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.ops import traits
from onnx_gs.passes import reshaped_axis
from onnx_gs.passes.base import Entry, Pass, Report
from onnx_gs.passes.dynamic_proof import Unproved, prove
from onnx_gs.passes.lower_constants import LowerConstants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx_gs.analysis.shape_functions import Shape
    from onnx_gs.ir import Graph
    from onnx_gs.ir.tensor import Tensor

_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)
_END = np.iinfo(np.int64).max
_SAME_AXES = traits.UNARY_ELEMENTWISE | {"Softmax", "Dropout", "QuantizeLinear", "DequantizeLinear"}


@dataclass(frozen=True)
class MakeDynamic(Pass):
    """Make an axis of an input symbolic, with the constants that hold its old size because of it.

    Matches:   a fixed axis of a graph input, or one of each of several inputs that share the size; all are freed and proved together.
    Rewrites:  targets of ``Reshape``, ``Expand``, ``Slice``, ``Tile``, ``Resize`` and ``ConstantOfShape`` that hold the old size because values of
               the axis meet them, in bodies too; what a loop carries from a constant; indices that count through the axis, or through one that it
               was merged with; declared shapes. ``Constant`` nodes become weights. Constants in local functions stay.
    Declines:  what it cannot prove: with the old size all outputs must be bit-equal to those before; with another size the model must run and give
               the shapes that follow; and for a leading axis that all outputs have in front, each part must be what the model gave for it alone.
               Where a reshaped tensor has several places that fit, each is tried. The model is unchanged then.

    Args:
        input: name of the input, or of several, separated by commas.
        axis: the axis.
        symbol: the name of the dim.
        also: further inputs, each with its axis of the same size, that become symbolic together with the first.
    """

    name: ClassVar[str] = "make-dynamic"
    input: str = ""
    axis: int = 0
    symbol: str = "batch"
    also: Mapping[str, int] = field(default_factory=dict)

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite a copy, prove it, and take it over.

        Raises:
            GraphValueError: there is no such input, or its axis is not fixed.
        """
        axes, old = self._named(graph)
        try:
            found = self._proved(graph, axes, old)
        except Unproved as reason:
            report.declined.append(self._entry(graph, next(iter(axes)), str(reason)))
            return
        changed = found.graph
        graph.nodes = changed.nodes
        graph.inputs, graph.outputs = changed.inputs, changed.outputs
        graph._record = changed._record
        graph.functions = changed.functions
        places = Places(graph)
        for node, what in found.done:
            holder = found.holder[id(node)]
            path = places.node(graph if holder is changed else holder, node)
            report.rewritten.append(Entry(self.name, node.name or node.op, node.op, path, what))
        for name, axis in axes.items():
            report.rewritten.append(self._entry(graph, name, f"axis {axis} is '{self.symbol}'"))

    def _entry(self, graph: Graph, name: str, what: str) -> Entry:
        return Entry(self.name, name, "input", f"graph '{graph.name}' > input '{name}'", what)

    def _named(self, graph: Graph) -> tuple[dict[str, int], int]:
        """Give the axis of each named input, counted from the front, and the size that all of them have."""
        inputs = {t.name: t for t in graph.inputs}
        whole = self.input if self.input in inputs else None  # a name may have a comma
        named = [(n, self.axis) for n in ([whole] if whole else [n.strip() for n in self.input.split(",")])] + list(self.also.items())
        axes: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for name, axis in named:
            if name not in inputs:
                raise GraphValueError(f"there is no input '{name}'", fix=f"the inputs are {', '.join(map(repr, inputs))}")
            if name in axes:
                raise GraphValueError(f"input '{name}' is named twice", fix="free one axis of an input at a time")
            size = _fixed_size(inputs[name], axis)
            if size == 0:
                raise GraphValueError(f"axis {axis} of input '{name}' is empty, which proves nothing", fix="name an axis of another size")
            axes[name], sizes[name] = axis % len(inputs[name].shape), size
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"axis {axes[name]} of '{name}' has {size}" for name, size in sizes.items())
            raise GraphValueError(f"the inputs differ: {told}", fix="name axes of one size, or give each size a name of its own")
        return axes, next(iter(sizes.values()))

    def _proved(self, graph: Graph, axes: dict[str, int], old: int) -> _Rewriter:
        """Rewrite copies of the graph, until one is proved.

        Raises:
            Unproved: none was; the reason is that of the first.
        """
        refused: Unproved | None = None
        start = graph.copy()
        LowerConstants()(start)  # only of weights are the values looked at
        for order in reshaped_axis.ORDERS:
            rewriter = _Rewriter(start.copy(), axes, self.symbol, old, order)
            try:
                rewriter.rewrite()
                prove(graph, rewriter.graph, axes, self.symbol, parts=rewriter.needs_parts)
            except Unproved as reason:
                refused = refused or reason
                if not rewriter.is_ambiguous:
                    break
            else:
                return rewriter
        assert refused is not None
        raise refused


def _fixed_size(t: Tensor, axis: int) -> int:
    """Give the size of an axis.

    Raises:
        GraphValueError: the input has no such axis, or it is not fixed.
    """
    shape = t.shape
    what = f"axis {axis} of input '{t.name}' with shape {shape if shape is None else list(shape)} is not fixed"
    if shape is None or not -len(shape) <= axis < len(shape):
        raise GraphValueError(what, fix="name an axis with a known size")
    if not is_static_dim(shape[axis]):
        either = f"bind_dims({{('{t.name}', {axis}): 4}}), or onnx-gs bind --bind {t.name}:{axis}=4"
        raise GraphValueError(what, fix=f"name an axis with a known size; this one is dynamic, and gets a size by {either}")
    return int(shape[axis])


class _Anew(Exception):  # noqa: N818 - it is caught where it starts
    """A node before the one at hand was mended, so that facts are outdated."""


class _Generous(ShapeFacts):
    """Facts that hold where no size is 0: what a ``Reshape`` makes of symbols. A proof has to follow."""

    def visit(self, node: Node) -> None:
        """Find the facts of a node's outputs."""
        super().visit(node)
        if node.op != "Reshape" or not node.is_onnx or len(node._inputs) < 2:
            return
        shape, target = self.shape(node._inputs[0]), self.contents(node._inputs[1])
        if shape is None or target is None or None in target.items or len(target.shape) != 1:
            return
        if 0 in target.items and (node.attrs.get("allowzero", 0) or len(target.items) > len(shape)):
            return
        dims: list[Any] = [shape[i] if d == 0 else d for i, d in enumerate(target.items)]
        if dims.count(-1) == 1:
            at = dims.index(-1)
            rest = dim_expr.exact_quotient(dim_expr.product(shape), dim_expr.product(dims[:at] + dims[at + 1 :]))
            if rest is None:
                return
            dims[at] = rest
        if self.shape(node._outputs[0]) != tuple(dims):
            self.tell(node._outputs[0], self.dtype(node._inputs[0]), tuple(dims))


class _Facts(_Generous):
    """Facts that are found node by node, as the rewriter goes, in bodies too."""

    def __init__(self, graph: Graph, visit: Callable[[Node], bool]) -> None:
        self._each = visit
        super().__init__(graph)

    def _visit_graph(self, graph: Graph) -> None:
        if graph is self.root:
            return
        if self._in_function:  # whose constants other calls read too
            super()._visit_graph(graph)
            return
        for node in list(graph.nodes):
            if not self._each(node):
                raise _Anew


class _Rewriter:
    """Follows the symbol through the graph, node by node, and mends the constants that it meets.

    Args:
        graph: the graph to rewrite.
        axes: the axis that becomes symbolic, by the input's name.
        symbol: its name.
        old: its size until now.
        order: where to look first for the axis in a reshaped tensor: in front of what it was merged with, behind that, or still merged.
    """

    def __init__(self, graph: Graph, axes: dict[str, int], symbol: str, old: int, order: tuple[str, ...]) -> None:
        self.order, self.is_ambiguous = order, False
        self.needs_parts = False  # whether the proof has to hold each part against what the model gives for it alone
        self.graph, self.axes, self.old, self.symbol = graph, axes, old, symbol
        self.before = _Generous(graph)
        self.names = Names(graph)
        self.holder = {id(n): g for g in walk.graphs(graph) for n in g.nodes}
        self.formals = {id(t): (body, k) for body in list(walk.graphs(graph))[1:] for k, t in enumerate(body.inputs)}
        self.parents = walk.parents(graph)
        self.done: list[tuple[Node, str]] = []
        self.source: Tensor | None = None
        for t in graph.inputs:
            if t.name in axes:
                shape = list(t.shape)
                shape[axes[t.name]] = symbol
                t.shape = shape
                self.source = self.source or t
        self.stand_ins: dict[str, int] = {}  # sizes of other symbols, to find the axis by
        self.prologue: list[Node] = []
        self.size: Tensor | None = None
        self.fixed: dict[int, dict[int, Dim]] = {}  # by node: the entries of its target that became expressions
        self.indices: list[tuple[Tensor, Shape]] = []  # indices that are computed in the prologue, and their shapes

    def rewrite(self) -> None:
        """Rewrite the graph; ``done`` says what was done."""
        for _ in range(200):
            self.facts = _Facts(self.graph, self._visit)
            for t, shape in self.indices:
                self.facts.tell(t, dtypes.of(t), shape)
            try:
                if all(self._visit(node) for node in list(self.graph.nodes)):
                    break
            except _Anew:
                continue
        else:
            raise Unproved("too many constants hold the old size")
        self.graph.nodes[:0] = self.prologue
        self._declare()

    def _visit(self, node: Node) -> bool:
        """Mend one node's constants and find its facts; False where a node before it was mended, so that all starts anew."""
        if node.is_onnx:
            menders = {
                "Reshape": self._reshape, "Expand": self._expand, "Slice": self._slice, "Resize": self._resize, "Gather": self._gather,
                "GatherND": self._gather_nd,
            }  # fmt: skip
            mend = menders.get(node.op)
            if mend is not None:
                mend(node)
            if not self._agree(node):
                return False
        self.facts.visit(node)
        for t in node._outputs:
            self._tell_target(node, t)
        return True

    def _tell_target(self, node: Node, t: Tensor) -> None:
        after = self.facts.shape(t)
        entries = self.fixed.get(id(node))
        if entries and after is not None:
            self.facts.tell(t, self.facts.dtype(t), tuple(entries.get(i, d) for i, d in enumerate(after)))

    # -- constants of one node ----------------------------------------------------------------------

    def _depends(self, dim: Dim) -> bool:
        return isinstance(dim, Expr) and self.symbol in dim_expr.names_in(dim)

    def _shapes(self, node: Node, *, sized: bool = True) -> tuple[Shape, Shape, Shape] | None:
        """Give the new shape of a node's first input, and the old ones of its input and output, where the symbol is in it; it was ``sized``."""
        now, was, out = self.facts.shape(node._inputs[0]), self.before.shape(node._inputs[0]), self.before.shape(node._outputs[0])
        if now is None or was is None or out is None or len(now) != len(was):
            return None
        sizes = [d for d, dim in zip(was, now) if self._depends(dim)]
        return (now, was, out) if sizes and (not sized or all(isinstance(d, int) for d in sizes)) else None

    def _reshape(self, node: Node) -> None:
        found = self._shapes(node, sized=False)
        target = self._entries(node)
        if found is None or target is None:
            return
        now, was, out = found
        carriers = [i for i, d in enumerate(now) if self._depends(d)]
        if len(carriers) != 1:
            return
        stood_in, stood_out = self._sized(was), self._sized(out)
        if stood_in is None or stood_out is None or len(target) != len(out):
            return
        axis = reshaped_axis.Axis(self.old, stood_in[carriers[0]], math.prod(stood_in[carriers[0] + 1 :]), carriers[0])
        at, is_ambiguous = reshaped_axis.find(axis, stood_out, self.order)
        is_static = isinstance(node._inputs[1], Constant) and all(isinstance(d, int) for d in (*was, *out))
        if not is_static and (at is None or not isinstance(target[at], int) or target[at] < 1):  # type: ignore[operator]
            return  # sizes that nobody knows may hide it
        self.is_ambiguous = self.is_ambiguous or is_ambiguous
        if at is None:
            raise Unproved(f"the shape that node '{node.name or node.op}' gives has no dim for the axis")
        if (target.count(-1) == 1 and target[at] == -1) or (target[at] == 0 and at == carriers[0]):
            return
        if is_static:
            self._retarget(node, [d if i != at else -1 for i, d in enumerate(stood_out)])
        else:
            self._reshape_among_symbols(node, target, at, keeps=at == carriers[0] and out[at] == was[at])

    def _reshape_among_symbols(self, node: Node, target: list[Dim], at: int, *, keeps: bool) -> None:
        """Mend one entry of a target, the others of which say how symbolic dims are told."""
        size = target[at]
        if keeps and not node.attrs.get("allowzero", 0):
            self._set_entry(node, at, 0)
        elif -1 not in target:
            self._set_entry(node, at, -1)
        elif isinstance(size, int) and size % self.old == 0:
            self._set_entry(node, at, dim_expr.symbol(self.symbol) * (size // self.old))

    def _entries(self, node: Node, place: int = 1) -> list[Dim] | None:
        """Give the entries of a node's target, which is a constant or joined from parts that are known; None for others."""
        t = node._inputs[place] if len(node._inputs) > place else None
        if isinstance(t, Constant):
            return [int(v) for v in t.values.ravel()]
        known = None if t is None or not t._inputs or t._inputs[0].op != "Concat" or not t._inputs[0].is_onnx else self.facts.contents(t)
        if known is None or len(known.shape) != 1 or not all(isinstance(d, (int, Expr)) for d in known.items):
            return None
        return list(known.items)  # type: ignore[arg-type]

    def _set_entry(self, node: Node, at: int, value: Dim, place: int = 1) -> None:
        """Change an entry of a node's target, where a constant holds it."""
        t = node._inputs[place]
        if isinstance(t, Constant):
            plain = [int(v) for v in t.values.ravel()]
            if isinstance(value, Expr):
                self._compute(node, place, plain, {at: value})
            else:
                self._retarget(node, [value if i == at else v for i, v in enumerate(plain)])
            return
        parts = list(t._inputs[0]._inputs)
        begin = 0
        for k, part in enumerate(parts):
            known = self.facts.contents(part)
            count = 0 if known is None else len(known.items)
            if begin <= at < begin + count:
                if not isinstance(part, Constant):
                    return
                values = part.values.ravel().tolist()
                if isinstance(value, Expr):
                    parts[k] = self._target(values, {at - begin: value})
                else:
                    values[at - begin] = value
                    parts[k] = Constant(self.names.fresh(part.name), np.array(values, np.int64))
                self._join_anew(node, parts, place)
                return
            begin += count

    def _join_anew(self, node: Node, parts: list[Tensor], place: int) -> None:
        """Let a node read its target from parts of its own."""
        joined = Variable(self.names.fresh(node._inputs[place].name), np.int64, node._inputs[place].shape)
        concat = Node("Concat", self.names.fresh("target_concat"), {"axis": 0}, parts, [joined])
        holder = self.holder[id(node)]
        holder.nodes.insert(next(i for i, n in enumerate(holder.nodes) if n is node), concat)
        self.holder[id(concat)] = holder
        node._inputs[place] = joined
        self.facts.visit(concat)
        self.done.append((node, "reads a target of its own"))

    def _retarget(self, node: Node, new: list[int]) -> None:
        if node._inputs[1].values.ravel().tolist() == new:
            return
        node._inputs[1] = Constant(self.names.fresh(node._inputs[1].name), np.array(new, np.int64))
        node.attrs.pop("allowzero", None)
        self.done.append((node, f"to {new}"))

    def _sized(self, shape: Shape) -> list[int] | None:
        """Give a shape with a size for each symbol that nothing else has; None where that makes none."""
        found = []
        for dim in shape:
            if isinstance(dim, Expr):
                for name in sorted(dim_expr.names_in(dim)):
                    self.stand_ins.setdefault(name, _PRIMES[len(self.stand_ins) % len(_PRIMES)])
                dim = dim_expr.substitute(dim, self.stand_ins)
            if not isinstance(dim, int):
                return None
            found.append(dim)
        return found

    def _expand(self, node: Node) -> None:
        found = self._shapes(node)
        target = self._entries(node)
        if found is None or target is None:
            return
        now, was, _ = found
        shift = len(target) - len(now)
        for i, t in enumerate(target):
            if i >= shift and self._depends(now[i - shift]) and isinstance(t, int) and t == was[i - shift] != 1:
                self._set_entry(node, i, 1)

    def _slice(self, node: Node) -> None:
        found = self._shapes(node)
        if found is None or len(node._inputs) < 3 or not all(isinstance(t, Constant) for t in list(node._inputs)[1:] if t._name):
            return
        now, was, _ = found
        ends = node._inputs[2].values.ravel().copy()
        axes = node._inputs[3].values.ravel() if len(node._inputs) > 3 and node._inputs[3]._name else np.arange(len(ends))
        changed = False
        for i, axis in enumerate(axes):
            if self._depends(now[axis]) and int(ends[i]) == was[axis]:
                ends[i] = min(_END, np.iinfo(ends.dtype).max)
                changed = True
        if changed:
            node._inputs[2] = Constant(self.names.fresh(node._inputs[2].name), ends)
            self.done.append((node, "to the end of the axis"))

    def _resize(self, node: Node) -> None:
        found = self._shapes(node)
        if found is None or len(node._inputs) < 4 or not isinstance(node._inputs[3], Constant) or "axes" in node.attrs:
            return
        now, was, out = found
        if not all(isinstance(d, int) for d in out):
            return
        entries: dict[int, Dim] = {}
        for i, (d, a, b) in enumerate(zip(now, was, out)):
            if self._depends(d):
                if b % a:  # type: ignore[operator]
                    raise Unproved(f"node '{node.name or node.op}' does not scale the axis by a whole number")
                entries[i] = d * (b // a)  # type: ignore[operator]
        self._compute(node, 3, list(out), entries)

    def _gather(self, node: Node) -> None:
        """Compute indices that count through an axis in steps of what one part of it holds, as of a tensor flattened together with the axis."""
        found = self._shapes(node)
        index = node._inputs[1]
        if found is None or not isinstance(index, Constant):
            return
        now, _, _ = found
        step = self._step(now[int(node.attrs.get("axis", 0)) % len(now)])
        if step is None or step < 2:  # of the axis itself, a constant may as well pick the first few
            return
        values = index.values
        self._count(node, values, [i for i, d in enumerate(values.shape) if d == self.old], np.full([1] * values.ndim, step))

    def _gather_nd(self, node: Node) -> None:
        """Compute indices one entry of which counts through the axis, as exporters write them for masks."""
        found = self._shapes(node)
        index = node._inputs[1]
        if found is None or not isinstance(index, Constant) or node.attrs.get("batch_dims", 0):
            return
        now, _, _ = found
        values = index.values
        for entry in range(values.shape[-1]):
            step = self._step(now[entry])
            if step is not None:
                steps = np.zeros([1] * (values.ndim - 1) + [values.shape[-1]], np.int64)
                steps[..., entry] = step
                if self._count(node, values, [i for i, d in enumerate(values.shape[:-1]) if d == self.old], steps):
                    self.needs_parts = self.needs_parts or step == 1  # a constant may as well pick the first few
                    return

    def _step(self, dim: Dim) -> int | None:
        """Give how much of a dim belongs to one part of the axis; None where that is no number."""
        step = dim_expr.exact_quotient(dim, dim_expr.symbol(self.symbol)) if self._depends(dim) else None
        return step if isinstance(step, int) else None

    def _count(self, node: Node, values: np.ndarray[Any, Any], axes: list[int], steps: np.ndarray[Any, Any]) -> bool:
        """Compute a node's indices where they count along one of the axes, in these steps from values below them; say whether they do."""
        for axis in axes:
            counted = self._counting(values, axis, steps)
            if counted is not None:
                node._inputs[1] = counted
                self.done.append((node, f"counts through the axis in steps of {steps.max()}"))
                return True
        return False

    def _counting(self, values: np.ndarray[Any, Any], axis: int, steps: np.ndarray[Any, Any]) -> Tensor | None:
        """Compute values that count along an axis in these steps, from values below them; None where they do not."""
        first = np.take(values, [0], axis=axis)
        along = np.arange(self.old).reshape([-1 if i == axis else 1 for i in range(values.ndim)]) * steps
        below = (first >= 0) & ((first < steps) | (steps == 0))
        counts = first.size and values.shape[axis] == self.old and below.all() and np.array_equal(first + along, values)
        return self._counted(first, axis, steps) if counts else None

    def _counted(self, first: np.ndarray[Any, Any], axis: int, steps: np.ndarray[Any, Any]) -> Tensor:
        """Give ``first + steps * i`` for every part ``i`` of the axis, joined along ``axis``."""

        def new(op: str, inputs: list[Tensor], shape: Shape) -> Tensor:
            out = Variable(self.names.fresh(f"index_{op.lower()}"), np.int64, None)
            self.prologue.append(Node(op, self.names.fresh(f"index_{op.lower()}"), None, inputs, [out]))
            self.indices.append((out, shape))
            return out

        def constant(value: Any) -> Constant:
            return Constant(self.names.fresh("index_constant"), np.array(value, np.int64))

        symbol = dim_expr.symbol(self.symbol)

        def along(shape: tuple[int, ...]) -> Shape:
            return tuple(symbol if i == axis else int(d) for i, d in enumerate(shape))

        count = new("Reshape", [self._size(), constant(np.zeros(0))], ())
        parts = new("Range", [constant(0), count, constant(1)], (symbol,))
        column = new("Reshape", [parts, constant([-1 if i == axis else 1 for i in range(first.ndim)])], along((1,) * first.ndim))
        apart = new("Mul", [column, constant(steps)], along(steps.shape))
        return new("Add", [apart, constant(first)], along(first.shape))

    # -- operands that have to agree ----------------------------------------------------------------

    def _agree(self, node: Node) -> bool:
        """Say whether the operands of a node agree on the axis; where one has the old size from a constant, that is mended first."""
        shapes = [self.facts.shape(t) if t._name else () for t in node._inputs]
        if node.op == "Concat":
            rank = len(shapes[0] or ())
            axis = int(node.attrs.get("axis", 1)) % max(rank, 1)
            aligned = [list(enumerate(s)) if s is not None else [] for s in shapes]
            return self._match(node, [[(i, d) for i, d in a if i != axis] for a in aligned], stretches=False)
        if node.op in traits.BROADCASTING:
            rank = max((len(s) for s in shapes if s is not None), default=0)
            return self._match(node, [[(i + rank - len(s), d) for i, d in enumerate(s)] if s is not None else [] for s in shapes], stretches=True)
        if node.op == "MatMul" and all(s is not None and len(s) > 2 for s in shapes):
            rank = max(len(s) for s in shapes if s is not None)
            return self._match(
                node, [[(i + rank - len(s), d) for i, d in enumerate(s) if i < len(s) - 2] if s is not None else [] for s in shapes], stretches=True
            )
        return True

    def _match(self, node: Node, dims: list[list[tuple[int, Dim]]], *, stretches: bool) -> bool:
        wanted = {place: d for operand in dims for place, d in operand if self._depends(d)}
        for at, operand in enumerate(dims):
            for i, (place, d) in enumerate(operand):
                want = wanted.get(place)
                if want is None or not isinstance(d, int) or (stretches and d == 1):
                    continue
                if dim_expr.substitute(want, {self.symbol: self.old}) != d:
                    raise Unproved(f"node '{node.name or node.op}' needs {want} and {d} to be equal")
                axis = place if not stretches else i
                self._mend(node._inputs[at], axis, want, node)
                return False
        return True

    def _mend(self, t: Tensor, axis: int, want: Dim, reader: Node) -> None:
        """Make the axis of a tensor, which has the old size from a constant, an expression."""
        if isinstance(t, Constant):
            self._mend_constant(t, axis, want, reader)
            return
        if id(t) in self.formals:
            self._mend(self._initial(t), axis, want, reader)
            return
        if not t._inputs:
            raise Unproved(f"axis {axis} of input '{t.name}' holds the size too; free it together with this one, under the same name '{self.symbol}'")
        node = t._inputs[0]
        out = self.facts.shape(t)
        if node.is_onnx and node.op in _SAME_AXES:
            self._mend(node._inputs[0], axis, want, node)
        elif node.is_onnx and node.op in traits.BROADCASTING and out is not None:
            for operand in node._inputs:
                dims = self.facts.shape(operand) or ()
                at = axis - len(out) + len(dims)
                if at >= 0 and isinstance(dims[at], int) and dims[at] == out[axis]:
                    self._mend(operand, at, want, node)
                    return
            raise Unproved(f"node '{node.name or node.op}' gives axis {axis} of '{t.name}' the old size")
        elif node.is_onnx and node.op == "Transpose" and out is not None:
            perm = [int(p) for p in node.attrs.get("perm", range(len(out))[::-1])]
            self._mend(node._inputs[0], perm[axis], want, node)
        elif node.is_onnx and node.op == "Unsqueeze" and len(node._inputs) > 1 and (axes := self.facts.integers(node._inputs[1])) is not None:
            rank = len(out or ())
            added = {a % rank for a in axes}
            if axis in added:
                raise Unproved(f"node '{node.name or node.op}' gives the axis the size 1")
            self._mend(node._inputs[0], axis - sum(a < axis for a in added), want, node)
        elif (source := self._same_axis(node, axis, out)) is not None:
            self._mend(source, axis, want, node)
        elif node.is_onnx and node.op in {"Expand", "ConstantOfShape", "Tile"} and out is not None:
            place = 0 if node.op == "ConstantOfShape" else 1
            target = self._entries(node, place)
            known = self.facts.integers(node._inputs[place]) if target is None else None
            at = axis - len(out) + len(target or known or ())
            before = node._inputs[place]
            if target is not None and at >= 0 and target[at] == out[axis] and id(node) not in self.fixed:
                self._set_entry(node, at, want, place)
            elif known is not None and at >= 0 and known[at] == out[axis]:
                self._compute(node, place, list(known), {at: want})
            if node._inputs[place] is before:
                raise Unproved(f"the size that node '{node.name or node.op}' gives to axis {axis} is not a constant")
            self.fixed[id(node)] = {axis: want}
        elif node.is_onnx and node.op == "Gather" and (indices := self.facts.shape(node._inputs[1])) is not None:
            at = int(node.attrs.get("axis", 0)) % max(1, len(self.facts.shape(node._inputs[0]) or ()))
            if not at <= axis < at + len(indices):
                raise Unproved(f"what node '{node.name or node.op}' picks from has the old size on axis {axis}")
            self._mend(node._inputs[1], axis - at, want, node)
        else:
            raise Unproved(f"node '{node.name or node.op}' gives axis {axis} of '{t.name}' the old size")

    def _same_axis(self, node: Node, axis: int, out: Shape | None) -> Tensor | None:
        """Give the input that an axis of what a node gives comes from, at the same place."""
        if not node.is_onnx or out is None:
            return None
        if node.op == "GatherND" and axis < len(self.facts.shape(node._inputs[1]) or ()) - 1:
            return node._inputs[1]
        if node.op == "Concat" and axis != int(node.attrs.get("axis", 0)) % len(out):
            return next((t for t in node._inputs if len(dims := self.facts.shape(t) or ()) == len(out) and dims[axis] == out[axis]), None)
        if node.op == "Expand":
            dims = self.facts.shape(node._inputs[0]) or ()
            return node._inputs[0] if len(dims) == len(out) and dims[axis] == out[axis] != 1 else None
        if node.op == "Reshape" and (self.facts.shape(node._inputs[0]) or ())[: axis + 1] == out[: axis + 1]:
            return node._inputs[0]
        return None

    def _initial(self, t: Tensor) -> Tensor:
        """Give what a value that a loop carries begins with."""
        body, k = self.formals[id(t)]
        _, node, _ = self.parents[id(body)] or (None, None, "")
        if node is not None and node.is_onnx and node.op == "Loop" and 2 <= k < len(node._inputs):
            return node._inputs[k]
        if node is not None and node.is_onnx and node.op == "Scan" and k < len(node._inputs) - int(node.attrs.get("num_scan_inputs", 0)):
            return node._inputs[k]
        raise Unproved(f"input '{t.name}' of a body has the old size")

    def _mend_constant(self, t: Constant, axis: int, want: Dim, reader: Node) -> None:
        values = t.values
        first = np.take(values, [0], axis=axis)
        if not np.array_equal(np.broadcast_to(first, values.shape), values):
            place = next((i for i, x in enumerate(reader._inputs) if x is t), None)
            counted = None if place is None or values.dtype != np.int64 else self._counting(values, axis, np.full([1] * values.ndim, 1))
            if place is not None and counted is not None and want == dim_expr.symbol(self.symbol):
                self._read_instead(t, counted, reader)
                self.needs_parts = True  # the parts of another size may not count on
                self.done.append((reader, f"reads '{t.name}' counted on"))
                return
            raise Unproved(f"weight '{t.name}' has the old size on axis {axis}, and its parts differ")
        row = Constant(self.names.fresh(t.name), np.ascontiguousarray(first))
        at = next((i for i, x in enumerate(reader._inputs) if x is t), None)
        if at is None:  # the constant is what a loop around the reader begins with
            reader = next(n for n in t._outputs if id(n) in self.holder)
            at = next(i for i, x in enumerate(reader._inputs) if x is t)
        if reader.op in traits.BROADCASTING:
            reader._inputs[at] = row
            self.done.append((reader, f"reads one part of '{t.name}', which are all equal"))
            return
        out = Variable(self.names.fresh(f"{t.name}_expanded"), t.dtype, None)
        target = self._target([1] * values.ndim, {axis: want})
        expand = Node("Expand", self.names.fresh("expand"), None, [row, target], [out])
        holder = self.holder[id(reader)]
        holder.nodes.insert(next(i for i, n in enumerate(holder.nodes) if n is reader), expand)
        self.holder[id(expand)] = holder
        self.fixed[id(expand)] = {axis: want}
        reader._inputs[at] = out
        self.done.append((reader, f"reads '{t.name}' expanded"))

    def _read_instead(self, t: Constant, counted: Tensor, reader: Node) -> None:
        """Let a node read what is counted; with more than one axis, which are hardly axes or sizes of something else, all that read the constant."""
        for node in [reader] if t.values.ndim < 2 else [n for n in t._outputs if id(n) in self.holder]:
            for i, x in enumerate(node._inputs):
                if x is t:
                    node._inputs[i] = counted

    # -- sizes at run time --------------------------------------------------------------------------

    def _compute(self, node: Node, place: int, target: list[Any], entries: dict[int, Dim]) -> None:
        if not entries or id(node) in self.fixed:
            return
        self.fixed[id(node)] = entries
        node._inputs[place] = self._target([int(t) for t in target], entries)
        self.done.append((node, "reads the size from the input"))

    def _target(self, plain: list[int], entries: dict[int, Dim]) -> Tensor:
        """Give a vector that is computed at run time: constants, and multiples of the symbol."""
        parts: list[Tensor] = []
        for i, value in enumerate(plain):
            entry = entries.get(i)
            if entry is None:
                parts.append(Constant(self.names.fresh("target_entry"), np.array([value], np.int64)))
                continue
            factor = dim_expr.exact_quotient(entry, dim_expr.symbol(self.symbol))
            if not isinstance(factor, int):
                raise Unproved(f"a size of {entry} would have to be computed")
            size = self._size()
            if factor != 1:
                scaled = Variable(self.names.fresh(f"{size.name}_scaled"), np.int64, (1,))
                times = Constant(self.names.fresh("target_factor"), np.array([factor], np.int64))
                self.prologue.append(Node("Mul", self.names.fresh("target_mul"), None, [size, times], [scaled]))
                size = scaled
            parts.append(size)
        if len(parts) == 1:
            return parts[0]
        joined = Variable(self.names.fresh("target"), np.int64, (len(parts),))
        self.prologue.append(Node("Concat", self.names.fresh("target_concat"), {"axis": 0}, parts, [joined]))
        return joined

    def _size(self) -> Tensor:
        if self.size is None:
            assert self.source is not None
            whole = Variable(self.names.fresh(f"{self.source.name}_shape"), np.int64, (len(self.source.shape),))
            size = Variable(self.names.fresh(f"{self.source.name}_{self.symbol}"), np.int64, (1,))
            at = Constant(self.names.fresh("axis_index"), np.array([self.axes[self.source.name]], np.int64))
            self.prologue.append(Node("Shape", self.names.fresh("input_shape"), None, [self.source], [whole]))
            self.prologue.append(Node("Gather", self.names.fresh("input_size"), {"axis": 0}, [whole, at], [size]))
            self.size = size
        return self.size

    def _declare(self) -> None:
        """Write the shapes down that follow, where the old ones do not hold any more."""
        for t in (t for g in walk.graphs(self.graph) for t in walk.tensors(g)):
            shape = None if isinstance(t, Constant) else self.facts.shape(t)
            if isinstance(t, Variable) and shape is not None and t.type == "tensor_type" and any(map(self._depends, shape)):
                t.shape = public_shape(shape)
            elif isinstance(t, Variable) and t.type == "tensor_type" and t.shape is not None and (t._inputs or id(t) in self.formals):
                known = public_shape(shape)
                if known is not None and len(known) == len(t.shape) and any(k is None for k in known):
                    t.shape = [k if isinstance(k, int) else None if isinstance(d, int) else d for k, d in zip(known, t.shape)]
