"""A graph to layers: nodes by ``OPERATORS``, and ``Loop``, ``Scan`` and ``If`` to TensorRT's own loops and conditionals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import Constant
from onnx_gs.trt.operators import OPERATORS, Unlowered, dim, elementwise, first_rows, scalar_int
from onnx_gs.trt.places import Place, places
from onnx_gs.trt.session import first_error
from onnx_gs.trt.tensorrt import listen, trt

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.trt.network_builder import ConditionalBuilder, LoopBuilder, NetworkBuilder

_INT32_MAX = 2**31 - 1
#: The first opset in which each operator means what its lowering says; older forms are left to the parser.
_SINCE = {"Softmax": 13, "Slice": 10, "Clip": 11, "Scan": 9, "Where": 9}


def lower(graph: Graph, net: NetworkBuilder) -> dict[str, str]:
    """Add a graph's layers, inputs and outputs to a network.

    Returns:
        The path of each node by the name of its layer.

    Raises:
        Unlowered: something in the graph has no lowering; the network is then of no use.
    """
    return _Lowering(graph, net).run()


class _Lowering:
    """The values known so far, by the identity of their tensors."""

    def __init__(self, graph: Graph, net: NetworkBuilder) -> None:
        self.graph = graph
        self.net = net
        self.values: dict[int, Any] = {}
        self.places: dict[int, Place] = {id(p.node): p for p in places(graph)}
        self.paths: dict[str, str] = {}
        self.opset = graph.opset

    def run(self) -> dict[str, str]:
        for tensor in self.graph.inputs:
            if isinstance(tensor, Constant):
                continue
            if tensor.type != "tensor_type" or tensor.shape is None:
                raise Unlowered(f"input '{tensor.name}' is no tensor of known rank")
            self.values[id(tensor)] = self.net.input(tensor.name, tensor.dtype, tensor.shape)
        self.nodes(self.graph)
        for tensor in self.graph.outputs:
            self.net.output(self.net.tensor(self.value(tensor)), tensor.name)
        return self.paths

    def value(self, tensor: Tensor) -> Any:
        """Give the layer tensor, the array of a constant, or None for an omitted input."""
        if not tensor.name:
            return None
        if isinstance(tensor, Constant):
            return tensor.values
        found = self.values.get(id(tensor))
        if found is None:
            raise Unlowered(f"tensor '{tensor.name}' has no value")
        return found

    def nodes(self, graph: Graph) -> None:
        for node in graph.nodes:
            place = self.places[id(node)]
            try:
                made = self.node(node)
            except Unlowered as why:
                raise Unlowered(f"{place.path}: {why}") if str(place.path) not in str(why) else why from None
            for tensor, value in zip(node.outputs, made):
                if tensor.name:
                    self.values[id(tensor)] = value

    def node(self, node: Node) -> list[Any]:
        if not node.is_onnx:
            raise Unlowered(f"operator {node.domain}::{node.op}")
        if self.opset < _SINCE.get(node.op, 1):
            raise Unlowered(f"{node.op} of opset {self.opset}")
        control = {"If": self.conditional, "Loop": self.loop, "Scan": self.scan}.get(node.op)
        if control is not None:
            return self.settled(control, node)
        if node.op == "Constant":
            if "value" not in node.attrs or not hasattr(node.attrs["value"], "values"):
                raise Unlowered("a Constant of this kind")
            return [node.attrs["value"].values]
        lowering = OPERATORS.get(node.op)
        if lowering is None or len(node.outputs) != 1:
            raise Unlowered(f"operator {node.op}")
        made = self.net.settled(lambda: lowering(self.net, [self.value(t) for t in node.inputs], dict(node.attrs)), self.places[id(node)].path)
        return [self.named(node, made)]

    def settled(self, control: Callable[[Node], list[Any]], node: Node) -> list[Any]:
        """Lower control flow, and ask for the shapes of what it gives: TensorRT looks at most of a loop only then."""
        with listen(quiet=True) as heard:
            try:
                made = control(node)
                for value in made:
                    if isinstance(value, trt.ITensor):
                        value.shape
            except RuntimeError as why:  # of the bindings; ours are others
                raise Unlowered(first_error(heard.errors) if heard.errors else str(why)) from why
        return made

    def named(self, node: Node, tensor: Any) -> Any:
        """Name the layer's tensor after the node's output, where that is possible."""
        if not tensor.is_network_input and not tensor.is_network_output and tensor.name not in self.paths:
            self.paths[tensor.name] = self.places[id(node)].path
        return tensor

    # -- control flow ---------------------------------------------------------------------------------

    def conditional(self, node: Node) -> list[Any]:
        given = self.value(node.inputs[0])
        branches = [node.attrs["then_branch"], node.attrs["else_branch"]]
        if not isinstance(given, trt.ITensor):
            return self.inline(branches[0 if bool(np.asarray(given).reshape(-1)[0]) else 1])
        conditional = self.net.conditional(scalar_int(self.net, given), self.places[id(node)].tensorrt_name)
        self.paths[conditional.name] = self.places[id(node)].path
        results = [self.branch(branch, conditional) for branch in branches]
        return [conditional.output(self.net.tensor(a), self.net.tensor(b)) for a, b in zip(*results)]

    def branch(self, branch: Graph, conditional: ConditionalBuilder) -> list[Any]:
        """Lower a branch; what it takes from outside comes through conditional inputs, so that what uses it is lazy."""
        outer = self.values
        self.values = _Through(outer, conditional)
        try:
            self.nodes(branch)
            # an outer tensor or constant that the branch only passes on needs no input: an empty branch
            return [outer[id(t)] if id(t) in outer and not isinstance(t, Constant) else self.value(t) for t in branch.outputs]
        finally:
            self.values = outer

    def inline(self, branch: Graph) -> list[Any]:
        self.nodes(branch)
        return [self.value(t) for t in branch.outputs]

    def loop(self, node: Node) -> list[Any]:
        body = node.attrs["body"]
        net = self.net
        limit, condition = (self.value(t) for t in node.inputs[:2])
        if limit is not None and not isinstance(limit, trt.ITensor) and int(np.asarray(limit).reshape(-1)[0]) >= _INT32_MAX:
            limit = None  # the exporters' way to say that there is no limit
        stays_true = self.is_true(condition) and _stays_true(body)
        if limit is None and (condition is None or stays_true):
            raise Unlowered("a loop that never ends")
        loop = net.loop(self.places[id(node)].tensorrt_name)
        self.paths[loop.name] = self.places[id(node)].path
        trips = self.limit(loop, limit) if limit is not None else None
        counter = loop.recurrence(net.constant(np.int64(0)))
        running = None
        if condition is not None and not stays_true:
            running = loop.recurrence(scalar_int(net, condition))
            loop.while_(running)
        self.values[id(body.inputs[0])] = counter
        self.values[id(body.inputs[1])] = running if running is not None else np.bool_(True)
        return self.body(node, body, loop, counter, running, trips)

    def body(self, node: Node, body: Graph, loop: LoopBuilder, counter: Any, running: Any, trips: Any) -> list[Any]:
        net = self.net
        carried = [loop.recurrence(net.tensor(self.value(t))) for t in node.inputs[2:]]
        for tensor, value in zip(body.inputs[2:], carried):
            self.values[id(tensor)] = value
        self.nodes(body)
        loop.next(counter, elementwise(net, "SUM", counter, net.constant(np.int64(1))))
        if running is not None:
            loop.next(running, scalar_int(net, self.value(body.outputs[0])))
        for state, tensor in zip(carried, body.outputs[1:]):
            self.next(loop, state, net.tensor(self.value(tensor)))
        scans = body.outputs[1 + len(carried) :]
        if scans and trips is None:
            raise Unlowered("a scan output of a loop without a trip limit: its length is unknown before the loop ends")
        results = [loop.last(state) for state in carried]
        ran = loop.last(counter) if scans and running is not None else None
        for tensor in scans:
            stacked = loop.concatenate(net.tensor(self.value(tensor)), trips)
            # the loop may end before the limit: keep the rows that were written, which the ONNX parser does not
            results.append(first_rows(net, stacked, ran) if ran is not None else stacked)
        return results

    def next(self, loop: LoopBuilder, state: Any, value: Any) -> None:
        if len(state.shape) != len(value.shape) or any(a != b for a, b in zip(state.shape, value.shape) if a >= 0 and b >= 0):
            raise Unlowered("a carried value whose shape changes")
        loop.next(state, value)

    def limit(self, loop: LoopBuilder, limit: Any) -> Any:
        net = self.net
        if isinstance(limit, trt.ITensor):
            most = net.constant(np.int64(_INT32_MAX))
            trips = elementwise(net, "MAX", elementwise(net, "MIN", scalar_int(net, limit), most), net.constant(np.int64(0)))
            trips = net.network.add_cast(trips, trt.DataType.INT32).get_output(0)
        else:
            trips = net.constant(np.int32(max(int(np.asarray(limit).reshape(-1)[0]), 0)))
        loop.count(trips)
        return trips

    def is_true(self, condition: Any) -> bool:
        return condition is not None and not isinstance(condition, trt.ITensor) and bool(np.asarray(condition).reshape(-1)[0])

    def scan(self, node: Node) -> list[Any]:
        body, attrs, net = node.attrs["body"], node.attrs, self.net
        count = int(attrs["num_scan_inputs"])
        states, scanned = node.inputs[: len(node.inputs) - count], node.inputs[len(node.inputs) - count :]
        loop = net.loop(self.places[id(node)].tensorrt_name)
        self.paths[loop.name] = self.places[id(node)].path
        axes = list(attrs.get("scan_input_axes") or [0] * count)
        directions = list(attrs.get("scan_input_directions") or [0] * count)
        tensors = [net.tensor(self.value(t)) for t in scanned]
        axes = [a + len(t.shape) if a < 0 else a for a, t in zip(axes, tensors)]
        length = net.network.add_cast(dim(net, tensors[0], axes[0]), trt.DataType.INT32).get_output(0)
        loop.count(length)
        carried = [loop.recurrence(net.tensor(self.value(t))) for t in states]
        for formal, value in zip(body.inputs, carried):
            self.values[id(formal)] = value
        for formal, tensor, axis, backward in zip(body.inputs[len(carried) :], tensors, axes, directions):
            self.values[id(formal)] = loop.iterate(tensor, axis, reverse=bool(backward))
        self.nodes(body)
        for state, out in zip(carried, body.outputs):
            self.next(loop, state, net.tensor(self.value(out)))
        rows = body.outputs[len(carried) :]
        out_axes = list(attrs.get("scan_output_axes") or [0] * len(rows))
        out_directions = list(attrs.get("scan_output_directions") or [0] * len(rows))
        results = [loop.last(state) for state in carried]
        for row, axis, backward in zip(rows, out_axes, out_directions):
            results.append(loop.concatenate(net.tensor(self.value(row)), length, axis, reverse=bool(backward)))
        return results


def _stays_true(body: Graph) -> bool:
    """Say whether a body's condition is its own condition input, handed on, or a constant true."""
    out = body.outputs[0]
    seen = 0
    while seen < len(body.nodes) + 1:
        if out is body.inputs[1]:
            return True
        if isinstance(out, Constant):
            return bool(np.asarray(out.values).reshape(-1)[0])
        if not out.inputs or out.inputs[0].op != "Identity":
            return False
        out = out.inputs[0].inputs[0]
        seen += 1
    return False


class _Through(dict[int, Any]):
    """Values inside a branch: an outer one comes through a conditional input, made when it is first asked for."""

    def __init__(self, outer: dict[int, Any], conditional: ConditionalBuilder) -> None:
        super().__init__()
        self.outer = outer
        self.conditional = conditional

    def get(self, key: int, default: Any = None) -> Any:
        if key in self:
            return self[key]
        found = self.outer.get(key, default)
        return self.conditional.input(found) if isinstance(found, trt.ITensor) else found
