"""The models that are measured: generated, the same every time, with onnx alone so that no tool made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _finish(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shape: list[int | str], output: str) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * len(shape))]
    graph = helper.make_graph(nodes, "bench", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(length: int) -> onnx.ModelProto:
    """Small nodes one after the other, every second one with a weight of its own."""
    nodes, weights = [], []
    for k in range(length):
        inputs = [f"t{k}" if k else "x"]
        if k % 2:
            weights.append(numpy_helper.from_array(np.float32([k]), f"w{k}"))
            inputs.append(f"w{k}")
        nodes.append(helper.make_node("Add" if k % 2 else "Relu", inputs, [f"t{k + 1}"], name=f"node_{k}"))
    return _finish(nodes, weights, ["batch", 4], f"t{length}")


def heavy(megabytes: int) -> onnx.ModelProto:
    """Few nodes with large weights in the file."""
    side = 2048
    count = max(1, megabytes * 10**6 // (side * side * 4))
    row = np.random.default_rng(5).normal(size=side).astype(np.float32)
    weights = [numpy_helper.from_array(np.ascontiguousarray(np.broadcast_to(row * np.float32(k + 1), (side, side))), f"w{k}") for k in range(count)]
    nodes = [helper.make_node("MatMul", [f"t{k}" if k else "x", f"w{k}"], [f"t{k + 1}"], name=f"matmul_{k}") for k in range(count)]
    return _finish(nodes, weights, ["batch", side], f"t{count}")


def attention(layers: int) -> onnx.ModelProto:
    """The shape arithmetic that exporters write around attention: constants, Shape, Gather, Concat, Reshape, and the way back."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    names = iter(f"v{k}" for k in range(10**9))

    def add(op: str, *inputs: str, **attributes: object) -> str:
        output = next(names)
        nodes.append(helper.make_node(op, list(inputs), [output], name=f"{op}_{output}", **attributes))
        return output

    def const(value: object) -> str:
        array = np.array(value) if not isinstance(value, np.ndarray) else value
        return add("Constant", value=numpy_helper.from_array(array))

    x = "x"
    for k in range(layers):
        weights.append(numpy_helper.from_array(np.full((64, 64), 1 / 64, np.float32), f"w{k}"))
        shape = add("Shape", x)
        batch, length = (add("Unsqueeze", add("Gather", shape, const(np.int64(axis)), axis=0), const(np.int64([0]))) for axis in (0, 1))
        heads = const(np.int64([4]))
        per_head = add("Div", const(np.int64([64])), heads)
        split = add("Concat", batch, length, heads, per_head, axis=0)
        by_head = add("Transpose", add("Reshape", add("MatMul", x, f"w{k}"), split), perm=[0, 2, 1, 3])
        scale = add("Sqrt", add("Cast", per_head, to=TensorProto.FLOAT))
        scores = add("Softmax", add("Div", add("MatMul", by_head, add("Transpose", by_head, perm=[0, 1, 3, 2])), scale), axis=-1)
        mixed = add("Transpose", add("MatMul", scores, by_head), perm=[0, 2, 1, 3])
        joined = add("Reshape", mixed, add("Concat", batch, length, add("Mul", heads, per_head), axis=0))
        x = add("Add", add("Identity", x), joined)
    return _finish(nodes, weights, ["batch", "length", 64], x)


def dead(length: int) -> onnx.ModelProto:
    """A short live part and a long dead one."""
    model = chain(length)
    model.graph.output[0].name = "t10"
    return model


def fan(length: int) -> onnx.ModelProto:
    """One tensor that many nodes read."""
    nodes = [helper.make_node("Relu", ["x"], [f"t{k}"], name=f"node_{k}") for k in range(length)]
    return _finish(nodes, [], ["batch", 4], f"t{length - 1}")


QUICK: dict[str, Callable[[], onnx.ModelProto]] = {
    "chain_20k": lambda: chain(20_000),
    "heavy_256m": lambda: heavy(256),
    "attention_24": lambda: attention(24),
    "dead_20k": lambda: dead(20_000),
    "fan_2k": lambda: fan(2_000),
}
FULL: dict[str, Callable[[], onnx.ModelProto]] = {
    "chain_100k": lambda: chain(100_000),
    "heavy_1g": lambda: heavy(1000),
    "attention_96": lambda: attention(96),
    "dead_100k": lambda: dead(100_000),
    "fan_10k": lambda: fan(10_000),
}


def write(folder: Path, *, full: bool) -> dict[str, Path]:
    """Write the models that are not there yet; give their files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, make in (FULL if full else QUICK).items():
        path = folder / f"{name}.onnx"
        if not path.exists():
            onnx.save(make(), path)
        found[name] = path
    return found
