"""Element types that TensorRT lacks inside a network, computed in types that it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import Constant, Tensor, Variable, dtypes, walk
from onnx_gs.passes import legalize_quantization
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.legalizing import apply
from onnx_gs.passes.narrow_types import CARRIERS, MOVES, WRAPS, Component, components, uses_as_number, zero_points
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.passes.base import Report

#: Types that TensorRT passes over a network's border.
_AT_THE_BORDER = (dtypes.UINT8, dtypes.INT8)
#: Operators between which whole numbers may as well be floats.
_AS_FLOATS = MOVES | {"QuantizeLinear", "DequantizeLinear", "MaxPool", "Constant"}


@dataclass(frozen=True)
class LegalizeDtypes(Pass):
    """Compute in int32 or int64 what TensorRT does not compute in a narrow integer type, and spell quantization out where it must be.

    Matches:   uint8, int16, uint16 and uint32 inside the network; int8 constants used as numbers; ``QuantizeLinear`` and
               ``DequantizeLinear`` with a zero point other than 0, of uint8, or of int32; ``QLinearMatMul``, ``QLinearConv``, and
               what ONNX Runtime's quantizer adds to them (``com.microsoft::QLinearAdd``, ``QGemm``, …).
    Rewrites:  all tensors that operators keep in one type, together: constants widened, casts at the border of the network, ``Mod`` where a
               result may leave the range, so that it wraps around as before. uint8 with zero point 128 becomes int8 with 0. Other
               quantization becomes ``Div``, ``Round``, ``Add``, ``Clip`` and back; ``DequantizeLinear`` of an int32 constant is folded.
    Requires:  known element types.
    Declines:  int16, uint16 and uint32 at the interface, which would change; operators without a rewriting, with their name.
    TensorRT:  has uint8 at the border of a network only, int8 constants only before ``DequantizeLinear``, no other narrow types.
               ``QLinearMatMul`` and ``QLinearConv`` round after a product of floats: equal but for ties.

    Before::                                             After::
        y = Add (x, k)           # uint8                     a = Cast <to = 6> (x)
                                                             b = Add (a, k)          # int32
                                                             c = Mod (b, 256)
                                                             y = Cast <to = 2> (c)
    """

    name: ClassVar[str] = "legalize-dtypes"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph and the functions of its model."""
        for work in works(graph, report):
            work.forget_nodes()  # other passes may have edited since
            work.forget_facts()
            for owner, node in work.nodes(tuple(legalize_quantization.RULES)):
                if node._outputs:
                    apply(legalize_quantization.RULES[node.op], work, owner, node)
            for owner, node in walk.nodes(work.root):
                if node.domain == "com.microsoft" and node.op in legalize_quantization.MICROSOFT_RULES:
                    apply(legalize_quantization.MICROSOFT_RULES[node.op], work, owner, node)
            work.finish()
            if work.root is graph:
                _widen(work)


#: The first opset with ``Mod``.
_MOD_SINCE = 10


def _widen(work: Work) -> None:
    changed = False
    for part in components(work):
        why = _need(work, part)
        if why is None:
            continue
        blocked = part.blocked or _border(work, part)
        first = next(iter(part.nodes.values()), None)
        if first is None:
            continue
        if blocked:
            work.report.decline(*first, f"{part.dtype.name.lower()} stays: {blocked}")
            continue
        shift = _shifts_to_int8(work, part)
        for owner, node in part.nodes.values():
            if node.op != "Constant":
                work.report.rewrote(owner, node, why)
                break
        (_Shift if shift else _Widen)(work, part).run()
        changed = True
    work.finish()
    if changed:
        work.forget_facts()
        work.forget_nodes()


def _need(work: Work, part: Component) -> str | None:
    """Say what TensorRT does not take about a component; None where it takes it."""
    name = part.dtype.name.lower()
    if not part.nodes:
        return None
    if part.dtype not in _AT_THE_BORDER:
        return f"{name} inside the network"
    points = zero_points(part)
    if part.dtype is dtypes.INT8:
        if uses_as_number(part):
            return "an int8 constant is used as a number"
        if any(node.op == "Clip" for _, node in part.nodes.values()):
            return "Clip of int8"
        return "a zero point other than 0" if any(p is None or p.any() for p in points) else None
    if points:
        return "quantization to uint8"
    inputs, outputs = {id(t) for t in work.root.inputs}, {id(t) for t in work.root.outputs}
    for _, node in part.nodes.values():
        enters = node.op == "Cast" and id(node.inputs[0]) in inputs and not part.holds(node.outputs[0])
        leaves = node.op == "Cast" and id(node.outputs[0]) in outputs and not node.outputs[0].outputs and not part.holds(node.inputs[0])
        if not (enters or leaves):
            return "uint8 inside the network"
    return None


def _border(work: Work, part: Component) -> str:
    for kind, tensors in (("input", work.root.inputs), ("output", work.root.outputs)):
        for t in tensors:
            if part.holds(t) and part.dtype not in _AT_THE_BORDER:
                return f"{kind} '{t.name}' has the type, and the interface is kept"
            if part.holds(t) and isinstance(t, Constant):
                return f"{kind} '{t.name}' is a constant"
    return ""


def _shifts_to_int8(work: Work, part: Component) -> bool:
    """Say whether everything is quantized with zero point 128, so that int8 with 0 holds the same."""
    if part.dtype is not dtypes.UINT8 or any(part.holds(t) for t in (*work.root.inputs, *work.root.outputs)):
        return False
    points = zero_points(part)
    if not points or any(p is None or not (p == 128).all() for p in points):
        return False
    allowed = (MOVES - {"Where", "Compress", "ReverseSequence", "Trilu"}) | {"QuantizeLinear", "DequantizeLinear", "MaxPool", "Constant"}
    return all(node.op in allowed for _, node in part.nodes.values())


class _Change:
    """A component while it gets another element type."""

    def __init__(self, work: Work, part: Component, dtype: DataType) -> None:
        self.work, self.part, self.dtype = work, part, dtype
        self.edit = work.edit
        self.opset = work.root.opset
        self.new: dict[int, Tensor] = {}

    def emitter(self, wish: str) -> Emitter:
        return Emitter(self.edit.names, self.opset, wish)

    def values(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.astype(self.dtype.numpy)

    def run(self) -> None:
        root = self.work.root
        inputs, outputs = {id(t) for t in root.inputs}, {id(t) for t in root.outputs}
        nodes = list(self.part.nodes.values())
        for key, t in self.part.tensors.items():
            if isinstance(t, Constant):
                self.new[key] = Constant(self.edit.names.fresh(t.name), np.asarray(self.values(t.values)))
            elif key in inputs or key in outputs:
                self.new[key] = Variable(self.edit.names.fresh(f"{t.name}_wide"), self.dtype.public, t.shape)
            else:
                t.dtype = self.dtype.public
        for owner, node in nodes:
            self.change(owner, node)
        for body in walk.graphs(root):
            if body is not root and any(id(t) in self.new for t in body.outputs):
                self.edit.set_outputs(body, [self.new.get(id(t), t) for t in body.outputs])
        for t in root.inputs:
            if id(t) in self.new:
                self._enter(t)
        for t in root.outputs:
            if id(t) in self.new and id(t) not in inputs:
                self._leave(t)

    def _enter(self, tensor: Tensor) -> None:
        emit = self.emitter(tensor.name)
        emit.cast(tensor, self.dtype)
        node = emit.nodes[0]
        node.outputs = [self.new[id(tensor)]]
        self.edit.insert_first(self.work.root, [node])

    def _leave(self, tensor: Tensor) -> None:
        wide = self.new[id(tensor)]
        emit = self.emitter(tensor.name)
        emit.op("Cast", wide, to=self.part.dtype.number)
        node = emit.nodes[0]
        node.outputs = [tensor]
        producer = wide.inputs[0] if wide.inputs else None
        if producer is not None:
            self.edit.insert_after(self.work.root, producer, [node])
        else:
            self.edit.append(self.work.root, [node])

    def replaced(self, node: Node) -> None:
        """Let a node read and make the new tensors."""
        for at, t in enumerate(list(node.inputs)):
            if id(t) in self.new:
                node.inputs[at] = self.new[id(t)]
        for at, t in enumerate(list(node.outputs)):
            if id(t) in self.new:
                node.outputs[at] = self.new[id(t)]

    def change(self, owner: Graph, node: Node) -> None:
        raise NotImplementedError

    def literal(self, node: Node) -> None:
        """Convert what a ``Constant`` or ``ConstantOfShape`` holds."""
        held = constness.values_of_node(node) if node.op == "Constant" else node.attrs.get("value")
        array = held if isinstance(held, np.ndarray) else held.values if isinstance(held, Constant) else held.load() if held is not None else None
        for name in list(node.attrs):
            del node.attrs[name]
        node.attrs["value"] = Constant("", np.asarray(self.values(np.asarray(array))))


class _Widen(_Change):
    """uint8 and the like in int32 or int64; in float32, which holds them all, where elements are only quantized, moved and dequantized."""

    def __init__(self, work: Work, part: Component) -> None:
        only_moved = all(node.op in _AS_FLOATS for _, node in part.nodes.values()) and part.dtype.bits <= 16
        super().__init__(work, part, dtypes.FLOAT if only_moved else CARRIERS[part.dtype])

    def change(self, owner: Graph, node: Node) -> None:
        if node.op in {"QuantizeLinear", "DequantizeLinear"}:
            self._quantization(owner, node)
            return
        made = [t for t in node.outputs if self.part.holds(t)]
        if node.op in {"Constant", "ConstantOfShape"} and made:
            self.literal(node)
        if node.op == "Cast" and made:
            node.attrs["to"] = self.dtype.number
        narrow_source = node.op == "Cast" and self.work.facts.dtype(node.inputs[0]) is dtypes.BOOL
        self.replaced(node)
        if node.op == "MaxPool" and self.dtype is not dtypes.FLOAT:
            self._as_float(owner, node)
        elif (node.op in WRAPS or node.op == "Cast") and made and not narrow_source:
            self._wrap(owner, node)

    def _as_float(self, owner: Graph, node: Node) -> None:
        """Let a node that takes no int32 compute in float32, which holds all the values."""
        out = node.outputs[0]
        before = self.emitter(node.inputs[0].name)
        node.inputs[0] = before.cast(node.inputs[0], dtypes.FLOAT)
        self.edit.insert_before(owner, node, before.nodes)
        node.outputs[0] = Variable(self.edit.names.fresh(f"{out.name}_float"), np.float32, out.shape)
        after = self.emitter(out.name)
        after.cast(node.outputs[0], self.dtype)
        after.nodes[0].outputs = [out]
        self.edit.insert_after(owner, node, after.nodes)

    def _wrap(self, owner: Graph, node: Node) -> None:
        """Bring the result of a node back into the range of the narrow type."""
        out = node.outputs[0]
        raw = Variable(self.edit.names.fresh(f"{out.name}_raw"), self.dtype.public, out.shape)
        node.outputs[0] = raw
        emit = self.emitter(out.name)
        size = emit.constant(np.array(1 << self.part.dtype.bits, self.dtype.numpy))
        if self.part.dtype.kind == "uint":
            self._modulo(emit, raw, size)
        else:
            half = emit.constant(np.array(1 << (self.part.dtype.bits - 1), self.dtype.numpy))
            emit.elementwise("Sub", self._modulo(emit, emit.elementwise("Add", raw, half), size), half)
        emit.nodes[-1].outputs = [out]
        self.edit.insert_after(owner, node, emit.nodes)

    def _modulo(self, emit: Emitter, x: Tensor, size: Tensor) -> Tensor:
        """Bring ``x`` between 0 and ``size``, without ``Mod`` where the opset has none."""
        if self.opset >= _MOD_SINCE:
            return emit.elementwise("Mod", x, size)
        rest = emit.elementwise("Sub", x, emit.elementwise("Mul", emit.elementwise("Div", x, size), size))  # the sign of x
        above = emit.elementwise("Add", rest, size)
        return emit.elementwise("Sub", above, emit.elementwise("Mul", emit.elementwise("Div", above, size), size))

    def _quantization(self, owner: Graph, node: Node) -> None:
        """Spell the node out in float, between its tensors in the new type."""
        emit = self.emitter(node.outputs[0].name)
        out = node.outputs[0]
        target = self.new.get(id(out), out)
        facts = self.work.facts
        rank = facts.rank(node.inputs[0])
        x = self.new.get(id(node.inputs[0]), node.inputs[0])
        point = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2].name else None
        zero = None if point is None else self.new.get(id(point), point)
        made = legalize_quantization.spelled_out(emit, node, x, node.inputs[1], zero, rank, self.part.dtype, facts)
        if node.op == "QuantizeLinear":
            emit.cast(made, self.dtype)
        self.edit.insert_before(owner, node, emit.nodes)
        last = emit.nodes[-1]
        self.edit.remove(owner, node)
        last.outputs = [target]


class _Shift(_Change):
    """uint8 around 128 as int8 around 0."""

    def __init__(self, work: Work, part: Component) -> None:
        super().__init__(work, part, dtypes.INT8)

    def values(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (array.astype(np.int16) - 128).astype(np.int8)

    def change(self, owner: Graph, node: Node) -> None:
        if node.op in {"Constant", "ConstantOfShape"} and any(self.part.holds(t) for t in node.outputs):
            self.literal(node)
        if "output_dtype" in node.attrs:
            del node.attrs["output_dtype"]
        self.replaced(node)


__all__ = ["LegalizeDtypes"]
