"""Inference on the structure: nothing declared gets weaker, nothing large is read."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh

import onnx_gs as gs
from onnx_gs.analysis.shape_inference import infer
from onnx_gs.ir.types import ValueType
from tests.support.rewrites import parse


def shape_of(graph, name):
    return list(graph.tensors()[name].shape)


def test_shapes_and_dtypes_are_written_down():
    graph = parse("g (float[n, 4] x) => (float[a, b] y) <float[4, 5] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> { h = MatMul (x, w) c = Cast <to = 7> (h) y = Cast <to = 1> (c) }")
    assert graph.infer_shapes() is graph
    assert shape_of(graph, "h") == ["n", 5]
    assert graph.tensors()["c"].dtype == np.int64
    assert shape_of(graph, "y") == ["a", "b"]


def test_constants_in_every_form_are_seen():
    for constant in ("s = Constant <value = int64[2] {2, 6}> ()", "s = Constant <value_ints = [2, 6]> ()"):
        graph = parse(f"g (float[n, 4] x) => (float[a, b] y) {{ {constant} h = Reshape (x, s) y = Neg (h) }}")
        assert shape_of(graph.infer_shapes(), "h") == [2, 6]


def test_shape_arithmetic_is_propagated():
    graph = parse("""g (float[2, 3, 4] x) => (float[a, b] y) <int64[1] minus = {-1}, int64[1] zero = {0}> {
        s = Shape (x) d = Gather (s, zero) t = Concat <axis = 0> (d, minus) h = Reshape (x, t) y = Neg (h) }""")
    assert shape_of(graph.infer_shapes(), "h") == [2, 12]


def test_declared_shapes_are_never_weakened():
    graph = parse("g (float[n, 4] x) => (float[n, 4] y) { h = NonZero (x) i = Cast <to = 1> (h) y = Neg (x) }")
    tensors = graph.tensors()
    tensors["h"].dtype, tensors["h"].shape = np.int64, (2, 7)
    tensors["i"].dtype, tensors["i"].shape = np.float32, (None, "k")
    infer(graph)
    assert list(tensors["h"].shape) == [2, 7]
    assert list(tensors["i"].shape) == [2, 7]
    assert list(graph.inputs[0].shape) == ["n", 4]


def test_bodies_and_captures():
    graph = parse("""g (float[2, 3] x, int64 n, bool c) => (float[a, b] y) {
        h = Transpose (x)
        y = Loop (n, c, h) <body = b (int64 i, bool d, float[3, 2] v) => (bool d2, float[p, q] w) { d2 = Identity (d) k = Add (v, h) w = Neg (k) }> }""")
    graph.infer_shapes()
    body = graph.nodes[1].attrs["body"]
    assert shape_of(graph, "h") == [3, 2]
    assert list(body.tensors()["k"].shape) == [3, 2]


def test_functions_are_seen_through():
    functions = '<domain: "local", opset_import: ["" : 18]> F (a) => (y) { y = Transpose (a) }'
    graph = parse("g (float[2, 3] x) => (float[a, b] y) { h = local.F (x) y = Neg (h) }", functions=functions)
    assert shape_of(graph.infer_shapes(), "h") == [3, 2]


def test_sequences_get_their_type():
    graph = parse("g (float[2, 3] x) => (int64 y) { s = SequenceConstruct (x, x) y = SequenceLength (s) }").infer_shapes()
    s = graph.tensors()["s"]
    assert s.type == "sequence_type"
    assert s.value_type.element == ValueType("tensor_type", np.dtype(np.float32), [2, 3])


def test_weights_in_missing_files_do_not_matter():
    node = oh.make_node("MatMul", ["x", "w"], ["y"])
    model = oh.make_model(oh.make_graph([node], "g", [oh.make_tensor_value_info("x", 1, ["n", 1000])], [oh.make_tensor_value_info("y", 1, None)]),
                          opset_imports=[oh.make_opsetid("", 18)])  # fmt: skip
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[1000, 30], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="gone.bin")
    graph = gs.import_onnx(model)
    assert list(graph.infer_shapes().outputs[0].shape) == ["n", 30]
    assert isinstance(graph.nodes[0].inputs[1]._values, gs.LazyValues)


def test_unknown_operators_end_inference_behind_them_only():
    x, h, y, z = (gs.Variable(name) for name in "xhyz")
    x.dtype, x.shape = np.float32, (2, 3)
    nodes = [gs.Node("Mine", inputs=[x], outputs=[h], domain="mine"), gs.Node("Neg", inputs=[h], outputs=[y]), gs.Node("Transpose", inputs=[x], outputs=[z])]
    graph = gs.Graph(nodes, [x], [y, z], opset=18).infer_shapes()
    assert y.shape is None
    assert list(z.shape) == [3, 2]
    assert graph.nodes[0].domain == "mine"


def test_invented_dims_are_not_written_down():
    graph = parse("g (float[n] x) => (float[m] y) { h = NonZero (x) k = Cast <to = 1> (h) y = Squeeze (k) }").infer_shapes()
    assert shape_of(graph, "h") == [1, None]


def test_small_weights_are_handed_over_as_they_came_and_as_they_are_now():
    weights = [oh.make_tensor("typed", 7, [2], [2, 6]), oh.make_tensor("raw", 7, [2], np.array([6, 2]).tobytes(), raw=True)]
    nodes = [oh.make_node("Reshape", ["x", w.name], [f"y_{w.name}"]) for w in weights]
    outputs = [oh.make_tensor_value_info(n.output[0], 1, None) for n in nodes]
    proto = oh.make_model(oh.make_graph(nodes, "g", [oh.make_tensor_value_info("x", 1, [3, "n"])], outputs, weights), opset_imports=[oh.make_opsetid("", 18)])
    graph = gs.import_onnx(proto)
    graph.tensors()["raw"].values = np.array([3, 4])
    graph.infer_shapes()
    assert (shape_of(graph, "y_typed"), shape_of(graph, "y_raw")) == ([2, 6], [3, 4])
    assert graph.tensors()["typed"].lazy is not None
    assert [t.name for t in proto.graph.initializer] == ["typed", "raw"]
