"""Tensors of narrow integer types that belong together: what one operator after another keeps in the same type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import constness
from onnx_gs.analysis.loops import LoopParts
from onnx_gs.ir import Constant, Tensor, dtypes, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.passes.rewriting import Work

#: The type that stands for each narrow one inside the network: it holds every value and every sum, difference and product of two.
CARRIERS: dict[DataType, DataType] = {
    dtypes.UINT8: dtypes.INT32,
    dtypes.INT8: dtypes.INT32,
    dtypes.UINT16: dtypes.INT32,
    dtypes.INT16: dtypes.INT32,
    dtypes.UINT32: dtypes.INT64,
}
#: Operators that only move elements.
MOVES = frozenset({
    "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop", "Reshape",
    "ReverseSequence", "Scan", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip
#: Operators whose results stay in range, or are no numbers of the type.
KEEPS = MOVES | frozenset({
    "ArgMax", "ArgMin", "Clip", "Constant", "ConstantOfShape", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "MaxPool", "Min",
    "Mod", "NonZero", "Pad", "Range", "ReduceMax", "ReduceMin", "Relu", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "TopK",
})  # fmt: skip
#: Operators whose results may leave the range, and wrap around then.
WRAPS = frozenset(["Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sum", "ReduceSum", "ReduceProd", "CumSum"])
#: Operators with a rewriting of their own.
CASTS = frozenset({"Cast", "QuantizeLinear", "DequantizeLinear"})


class Component:
    """Tensors of one narrow type that are connected by operators, and those operators.

    Attributes:
        dtype: the narrow type.
        tensors: by id.
        nodes: with the graphs that hold them, by id.
        blocked: why it cannot be computed in another type; empty where it can.
    """

    def __init__(self, dtype: DataType) -> None:
        """Start empty."""
        self.dtype = dtype
        self.tensors: dict[int, Tensor] = {}
        self.nodes: dict[int, tuple[Graph, Node]] = {}
        self.blocked = ""

    def holds(self, tensor: Tensor) -> bool:
        """Say whether a tensor belongs to it."""
        return id(tensor) in self.tensors


def components(work: Work) -> list[Component]:
    """Find the components of all narrow types in a graph and its bodies, in order of first use."""
    parent: dict[int, int] = {}
    seen: dict[int, tuple[Tensor, DataType]] = {}

    def find(key: int) -> int:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    def narrow(tensor: Tensor) -> DataType | None:
        if not tensor.name:
            return None
        if id(tensor) in seen:
            return seen[id(tensor)][1]
        dtype = work.facts.dtype(tensor) if tensor.type == "tensor_type" else None
        if dtype in CARRIERS:
            seen[id(tensor)] = (tensor, dtype)
            parent[id(tensor)] = id(tensor)
            return dtype
        return None

    def union(group: list[Tensor]) -> None:
        first: dict[str, Tensor] = {}
        for t in group:
            dtype = narrow(t)
            if dtype is not None:
                known = first.setdefault(dtype.name, t)
                parent[find(id(t))] = find(id(known))

    touched: list[tuple[Graph, Node, list[Tensor]]] = []
    for owner, node in walk.nodes(work.root):
        own = [*node.inputs, *node.outputs]
        if node.has_body and node.is_onnx:
            for group in _through_bodies(node):
                union(group)
            members = [t for t in own if narrow(t) is not None]
        else:
            union(own)
            members = [t for t in own if narrow(t) is not None]
        if members:
            touched.append((owner, node, members))
    for t in [*work.root.inputs, *work.root.outputs]:
        narrow(t)
    found: dict[int, Component] = {}
    for key, (tensor, dtype) in seen.items():
        found.setdefault(find(key), Component(dtype)).tensors[key] = tensor
    for owner, node, members in touched:
        for t in members:
            part = found[find(id(t))]
            if id(node) not in part.nodes:
                part.nodes[id(node)] = (owner, node)
                part.blocked = part.blocked or _obstacle(node)
    return list(found.values())


def _through_bodies(node: Node) -> Iterator[list[Tensor]]:
    """Give the tensors that are one value as it enters and leaves the bodies of a node."""
    if node.op == "If":
        branches = walk.bodies(node)
        for k, out in enumerate(node.outputs):
            yield [out, *(b.outputs[k] for b in branches if k < len(b.outputs))]
    elif node.op == "Loop":
        parts = LoopParts(node)
        if parts.well_formed:
            for k in range(parts.carried):
                yield [parts.initial(k), parts.state_in(k), parts.state_out(k), parts.final(k)]
            for j in range(parts.scans):
                yield [parts.row(j), parts.scan(j)]
    elif node.op == "Scan":
        body: Graph = node.attrs["body"]
        states = len(body.inputs) - int(node.attrs["num_scan_inputs"])
        given = node.inputs[len(node.inputs) - len(body.inputs) :]
        for k, (outer, inner) in enumerate(zip(given, body.inputs)):
            yield [outer, inner, *([body.outputs[k], node.outputs[k]] if k < states else [])]
        for inner, outer in zip(body.outputs[states:], node.outputs[states:]):
            yield [inner, outer]


def _obstacle(node: Node) -> str:
    """Say why an operator cannot compute in a wider type; empty where it can."""
    if not node.is_onnx:
        return f"{node.domain}::{node.op} may need the type"
    if node.op not in KEEPS and node.op not in WRAPS and node.op not in CASTS:
        return f"{node.op} has no rewriting to a wider type"
    if node.op in {"ScatterND", "ScatterElements"} and node.attrs.get("reduction", "none") not in {"none", b"none"}:
        return f"{node.op} with a reduction"
    if node.op == "Mod" and node.attrs.get("fmod", 0):
        return "Mod with fmod"
    if node.op in {"QuantizeLinear", "DequantizeLinear"} and node.attrs.get("block_size", 0):
        return f"{node.op} by blocks"
    return ""


def uses_as_number(part: Component) -> bool:
    """Say whether a constant of the component is read by something else than quantization."""
    for _, node in part.nodes.values():
        if node.op in {"QuantizeLinear", "DequantizeLinear", "Constant"} or not node.is_onnx:
            continue
        if any(part.holds(t) and (isinstance(t, Constant) or constness.constant_node(t) is not None) for t in node.inputs):
            return True
    return False


def zero_points(part: Component) -> list[Any]:
    """List the zero points that quantization in the component uses: an array each, None for one that is computed; absent ones as 0."""
    found: list[Any] = []
    for _, node in part.nodes.values():
        if node.op in {"QuantizeLinear", "DequantizeLinear"} and node.is_onnx:
            present = len(node.inputs) > 2 and node.inputs[2].name
            found.append(constness.array(node.inputs[2]) if present else dtypes.INT32.numpy.type(0).reshape(()))
    return found
