"""Integer → float → integer around arithmetic: the arithmetic on integers, where that gives exactly the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.edit import move_consumers
from onnx_gs.ir.names import Names
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.dtypes import DataType

#: float32 holds every integer up to this, and no more.
EXACT = 1 << 24
#: A dim whose size is not known is taken to be at most this.
LARGEST_DIM = 1 << 23

Range = tuple[int, int]
#: Operators, and the opset since which they take int32 and int64.
_OPS: dict[str, int] = {
    "Add": 7, "Sub": 7, "Mul": 7, "Div": 7, "Max": 12, "Min": 12, "Equal": 7, "Greater": 9, "Less": 9, "Concat": 4,
}  # fmt: skip
_WIDE = frozenset({dtypes.INT32, dtypes.INT64, dtypes.FLOAT})
_COMPARING = frozenset({"Equal", "Greater", "Less"})
#: Operators that give elements of their first input.
_PASSING = frozenset({"Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Flatten", "Transpose", "Expand", "Tile"})


def elide_casts(graph: Graph, report: Report | None = None, root: Graph | None = None, holder: Node | None = None) -> int:
    """Do integer arithmetic on integers in one graph, where casts to float and back around it change nothing; count what was rewritten.

    Args:
        graph: sorted.
        report: where to note what was done.
        root: the model's graph, or the function: gives fresh names, and the opset.
        holder: the node that has the graph as a body, if any; a ``Loop`` tells how far its counters go.
    """
    opset = (root if root is not None else graph).opset
    found = {
        id(reader): reader
        for cast in graph.nodes
        if cast.op == "Cast" and _casts_to_float(cast) and _may_matter(cast)
        for reader in cast._outputs[0]._outputs
        if reader.is_onnx and opset >= _OPS.get(reader.op, opset + 1)
    }
    if not found:
        return 0
    members = {id(node) for node in graph.nodes}
    readers = []
    for reader in found.values():
        other = _other_than_casts(reader)
        if other is None:
            readers.append(reader)
        elif report is not None and id(reader) in members:
            report.decline(graph, reader, f"its input '{other.name}' is no cast integer")
    if not readers:
        return 0
    wanted = _sources(readers)
    work = _Elision(graph, report, root if root is not None else graph)
    if holder is not None:
        work.note_counters(holder)
    return sum(work.visit(node) for node in list(graph.nodes) if id(node) in wanted or node.op == "Loop")


def _sources(readers: list[Node]) -> set[int]:
    """Give the ids of these nodes, and of those on which the ranges of what they read depend."""
    found: set[int] = set()
    pending = list(readers)
    while pending:
        node = pending.pop()
        if id(node) in found:
            continue
        found.add(id(node))
        if node.op in _OPS or node.op in _PASSING or node.op == "Cast":
            pending += [producer for t in node._inputs for producer in t._inputs]
    return found


def _casts_to_float(node: Node) -> bool:
    if node.op != "Cast" or not node.is_onnx or len(node._inputs) != 1 or len(node._outputs) != 1:
        return False
    return dtypes.find(node.attrs.get("to")) is dtypes.FLOAT


def _other_than_casts(reader: Node) -> Tensor | None:
    """Give an operand that is neither a constant nor a cast to float, so that no ranges have to be found; None where there is none."""
    return next((t for t in reader._inputs if not isinstance(t, Constant) and not (len(t._inputs) == 1 and _casts_to_float(t._inputs[0]))), None)


def _may_matter(cast: Node) -> bool:
    """Say whether a cast to float is of integers, as far as that is known, and read by an operator that could do without it."""
    held = dtypes.of(cast._inputs[0])
    return (held is None or held in {dtypes.INT32, dtypes.INT64}) and any(reader.op in _OPS for reader in cast._outputs[0]._outputs)


class _Elision:
    """One graph's casts, with the ranges of its integers."""

    def __init__(self, graph: Graph, report: Report | None, root: Graph) -> None:
        self.graph, self.report, self.root = graph, report, root
        self.members = {id(node) for node in graph.nodes}
        self.returned = {id(t) for g in walk.graphs(graph) for t in g.outputs}
        self.ranges: dict[int, Range] = {}
        self.kinds: dict[int, DataType] = {}  # element types that nobody wrote down
        self._constants: dict[int, tuple[Tensor, Range | None]] = {}  # the tensor too, so that no other gets its id
        self._names: Names | None = None

    def visit(self, node: Node) -> bool:
        """Rewrite a node if that is exact, and note the range of what it gives."""
        if node.is_onnx and node.op == "Loop":
            self.note_counters(node)
            return False
        if not node.is_onnx or len(node._outputs) != 1:
            return False
        since = _OPS.get(node.op)
        if since is not None and self.root.opset >= since and self._rewrite(node):
            return True
        self._note_kind(node)
        found = self._range_of_node(node)
        if found is not None:
            self.ranges[id(node._outputs[0])] = found
        return False

    def kind(self, tensor: Tensor) -> DataType | None:
        """Give the element type of a tensor, also where it was not written down."""
        return dtypes.of(tensor) or self.kinds.get(id(tensor))

    def _note_kind(self, node: Node) -> None:
        output = node._outputs[0]
        if dtypes.of(output) is not None:
            return
        if node.op in {"Shape", "Size"}:
            self.kinds[id(output)] = dtypes.INT64
        elif node.op == "Cast":
            found = dtypes.find(node.attrs.get("to"))
            if found is not None:
                self.kinds[id(output)] = found
        elif node._inputs and (node.op in _PASSING or (node.op in _OPS and node.op not in _COMPARING)):
            found = self.kind(node._inputs[0])
            if found is not None:
                self.kinds[id(output)] = found

    def note_counters(self, loop: Node) -> None:
        """Note what is known of the counters of a loop, in its body and after it."""
        for key, (found, kind) in _counters(loop).items():
            self.ranges[key], self.kinds[key] = found, kind

    # -- ranges -----------------------------------------------------------------------------------

    def range(self, tensor: Tensor) -> Range | None:
        """Give the least and the greatest integer that a tensor may hold; None where nothing is known."""
        found = self.ranges.get(id(tensor))
        if found is not None:
            return found
        if id(tensor) not in self._constants:
            self._constants[id(tensor)] = tensor, _range_of_constant(tensor)
        return self._constants[id(tensor)][1]

    def _range_of_node(self, node: Node) -> Range | None:
        if node.op == "Shape":
            shape = node._inputs[0].shape
            return (0, max([int(d) if is_static_dim(d) else LARGEST_DIM for d in shape], default=0)) if shape is not None else (0, LARGEST_DIM)
        if node.op in _PASSING:
            return next((self.range(t) for t in node._inputs if t._name), None)
        if node.op != "Cast" and node.op not in _OPS:
            return None
        parts = [self.range(t) for t in node._inputs if t._name]
        if not parts or any(p is None for p in parts):
            return None
        known = [p for p in parts if p is not None]
        if node.op == "Cast":
            return known[0] if dtypes.find(node.attrs.get("to")) in {dtypes.INT32, dtypes.INT64, dtypes.FLOAT} and _within(known[0], EXACT) else None
        return _combine(node.op, known)

    # -- rewriting --------------------------------------------------------------------------------

    def _rewrite(self, node: Node) -> bool:
        casts = [self._cast(t) for t in node._inputs]
        held = {h for _, h in casts if h is not None}
        if len(held) != 1 or any(t._name == "" for t in node._inputs):
            return False
        (kind,) = held
        ranges = []
        for (source, _), t in zip(casts, node._inputs):
            if source is None and (not isinstance(t, Constant) or dtypes.of(t) is not dtypes.FLOAT):
                return self._decline(node, f"its input '{t.name}' is no cast integer")
            found = self.range(source if source is not None else t)
            if found is None and source is None:
                return self._decline(node, f"its input '{t.name}' holds other than integers")
            if found is None or not _within(found, EXACT):
                return self._decline(node, f"the integers in '{(source or t).name}' may be too large to be exact as float")
            ranges.append(found)
        outs: list[Node] = []
        output = node._outputs[0]
        if node.op not in _COMPARING:
            if id(output) in self.returned or not output._outputs:
                return False
            outs = list({id(n): n for n in output._outputs}.values())
            if any(not self._casts_back(n, kind) for n in outs):
                return False
            result = _combine(node.op, ranges)
            if result is None or not _within(result, EXACT) or (node.op == "Div" and not all(_within(r, LARGEST_DIM) for r in ranges)):
                return self._decline(node, "its result may be too large to be exact as float")
            self.ranges[id(outs[0]._outputs[0])] = result
            self.kinds[id(outs[0]._outputs[0])] = kind
        if self.report is not None:
            self.report.rewrote(self.graph, node, f"computed as {kind.name.lower()} without casts")
        for at, (source, _) in enumerate(casts):
            node._inputs[at] = source if source is not None else self._as_integers(node._inputs[at], kind)
        if outs:
            self._give(node, outs)
        return True

    def _cast(self, tensor: Tensor) -> tuple[Tensor | None, DataType | None]:
        """Give what a tensor was cast from, and its type."""
        if len(tensor._inputs) != 1:
            return None, None
        if not _casts_to_float(tensor._inputs[0]):
            return None, None
        source = tensor._inputs[0]._inputs[0]
        held = self.kind(source)
        return (source, held) if held in {dtypes.INT32, dtypes.INT64} else (None, None)

    def _casts_back(self, node: Node, kind: DataType) -> bool:
        if node.op != "Cast" or not node.is_onnx or id(node) not in self.members or len(node._outputs) != 1:
            return False
        return dtypes.find(node.attrs.get("to")) is kind

    def _decline(self, node: Node, reason: str) -> bool:
        if self.report is not None:
            self.report.decline(self.graph, node, reason)
        return False

    def _as_integers(self, tensor: Tensor, kind: DataType) -> Constant:
        values = constness.array(tensor)
        assert values is not None
        if self._names is None:
            self._names = Names(self.root)
        return Constant(self._names.fresh(f"{tensor.name}_{kind.name.lower()}"), values.astype(kind.numpy))

    def _give(self, node: Node, outs: list[Node]) -> None:
        """Let the node give what the casts back gave."""
        first = outs[0]
        result = first._outputs[0]
        first._outputs.clear()
        node._outputs[0] = result
        first._inputs.clear()
        for other in outs[1:]:
            if id(other._outputs[0]) in self.returned:
                other._inputs[0] = result  # a cast to its own type, which keeps the name of what the graph returns
                continue
            move_consumers(other._outputs[0], result)
            other._inputs.clear()
            other._outputs.clear()


def _counters(loop: Node) -> dict[int, tuple[Range, DataType]]:
    """Give the ranges and types of a loop's integers that start and step by constants: by tensor, in the body and after the loop.

    The trip count must be constant. By induction a counter stays within its start plus as many steps; one that would leave the integers that
    float32 holds is left out.
    """
    body = loop.attrs.get("body") if loop.op == "Loop" and loop.is_onnx else None
    trips = constness.scalar(loop._inputs[0]) if body is not None and loop._inputs else None
    if body is None or not isinstance(trips, int) or not 0 <= trips <= EXACT or len(body.inputs) < 2:
        return {}
    found: dict[int, tuple[Range, DataType]] = {id(body.inputs[0]): ((0, max(trips - 1, 0)), dtypes.INT64)}
    members = {id(node) for node in body.nodes}
    for start, formal, result, after in zip(loop._inputs[2:], body.inputs[2:], body.outputs[1:], loop._outputs):
        values = constness.array(start, 1 << 10)
        if values is None or values.size == 0 or values.dtype.kind != "i":
            continue
        step = _step(result, formal, members)
        if step is None:
            continue
        low, high = int(values.min()) + min(0, step[0] * trips), int(values.max()) + max(0, step[1] * trips)
        if _within((low - step[2], high + step[2]), EXACT):
            found[id(formal)] = found[id(after)] = ((low, high), dtypes.require(values.dtype))
    return found


def _step(result: Tensor, formal: Tensor, members: set[int]) -> tuple[int, int, int] | None:
    """Give by how much a value that a loop carries changes in a trip: the constants that are added on the way from the one to the other.

    Returns:
        The least and the greatest change, and how far the value may be from both ends on the way.
    """
    low = high = reach = 0
    for _ in range(64):
        if result is formal:
            return low, high, reach
        if len(result._inputs) != 1 or id(result._inputs[0]) not in members or not result._inputs[0].is_onnx:
            return None
        node = result._inputs[0]
        if (node.op in _PASSING and node.op not in {"Gather", "Slice"}) or (node.op == "Cast" and dtypes.find(node.attrs.get("to")) in _WIDE):
            result = node._inputs[0]
        elif node.op in {"Add", "Sub"}:
            left, right = (_range_of_constant(t) for t in node._inputs)
            reach += max(abs(end) for end in (*(left or (0,)), *(right or (0,))))
            if right is not None:
                result = node._inputs[0]
                low, high = (low + right[0], high + right[1]) if node.op == "Add" else (low - right[1], high - right[0])
            elif left is not None and node.op == "Add":
                result = node._inputs[1]
                low, high = low + left[0], high + left[1]
            else:
                return None
        else:
            return None
    return None


def _range_of_constant(tensor: Tensor) -> Range | None:
    """Give the least and the greatest element of a constant of integers, also where they are stored as floats."""
    values = constness.array(tensor, 1 << 16)
    if values is None or values.size == 0 or values.dtype.kind not in "iuf":
        return None
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        if not (np.isfinite(values).all() and (values == np.trunc(values)).all() and (np.abs(values) <= EXACT).all()):
            return None
    return int(values.min()), int(values.max())


def _within(found: Range, bound: int) -> bool:
    return -bound <= found[0] and found[1] <= bound


def _combine(op: str, parts: list[Range]) -> Range | None:
    """Give the range of a result from those of the operands."""
    if op in {"Concat", "Max", "Min"}:
        return min(p[0] for p in parts), max(p[1] for p in parts)
    if len(parts) != 2:
        return None
    (a, b), (c, d) = parts
    if op == "Add":
        return a + c, b + d
    if op == "Sub":
        return a - d, b - c
    if op == "Mul":
        ends = [x * y for x in (a, b) for y in (c, d)]
        return min(ends), max(ends)
    if op == "Div" and not c <= 0 <= d:
        size = max(abs(a), abs(b))
        return -size, size
    return None


@dataclass(frozen=True)
class ElideCasts(Pass):
    """Do integer arithmetic on integers where casts to float32 and back around it change nothing.

    Matches:   ``Add``, ``Sub``, ``Mul``, ``Div``, ``Max``, ``Min``, ``Concat`` of integers cast to float32 (and of constants that are integers) whose
               result is only cast back; ``Equal``, ``Greater``, ``Less`` of such.
    Rewrites:  the operator reads the integers; the casts go where nothing else reads them.
    Requires:  that every integer involved is at most 2^24, which float32 holds exactly. It is known from constants, shapes and trip counts; a
               dim whose size is not known is taken to be at most 2^23.
    Declines:  integers that may be larger, such as those of a graph input; true floats among the operands; divisors that may be zero.
    """

    name: ClassVar[str] = "elide-casts"

    def run(self, graph: Graph, report: Report) -> None:
        """Elide, in bodies and functions too."""
        for root in (graph, *graph.functions):
            holders = walk.parents(root)
            for owner in walk.graphs(root):
                holder = holders.get(id(owner))
                elide_casts(owner, report, root, None if holder is None else holder[1])
