"""What a look at a message tells, and where it leaves the answer to the graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_gs.io.glance import glance

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
PLAIN = "g (float[2,3] x) => (float[2,3] y) <float[3] w = {1,2,3}, int64[1,1,1] unused = {1}> { a = Add (x, w) y = Relu (a) }"


def look(text: str, head: str = HEAD):
    return glance(parser.parse_model(head + text))


def test_it_names_operators_and_what_enters():
    found = look(PLAIN)
    assert found is not None
    assert found.operators == {"Add", "Relu"}
    assert found.types == {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64}
    assert found.rank == 3
    assert found.opset == 18


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x) => (float[2] y) { y = other.domain.Relu (x) }",
        "g (float[2] x) => (float[2] y) { y = NoSuchOperator (x) }",
        "g (float[2] x) => (float[2] y) { k = Constant <value_float = 1.0> () y = Add (x, k) }",
        "g (float[2] x, bool p) => (float[2] y) { y = If (p) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }> }",
        "g (seq(float[2]) s) => (int64 y) { y = SequenceLength (s) }",
        "g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct (x) }",
        "g (float[2] x) => (float[2] y) { y = Neg (x) y = Abs (x) }",
        "g (float[2] x) => (y) { y = Neg (x) }",
        "g (float[2] x) => () { y = Neg (x) }",
        "g (float[2] x) => (float[2] y) { y = Add (x, z) }",
        "g (float[2] x) => (float[2] z) { y = Neg (x) }",
        "g (float[2] x) => (float[2] y) { y = Add (x) }",
        "g (float[2] x) => (float[2] y) { y = Neg (x, x) }",
        "g (float[2] x) => (float[2] y) { y, z = Neg (x) }",
        "g (float[2] x) => (float[2] y) { y = Concat (x, x) }",
    ],
)
def test_what_takes_the_graph(text):
    assert look(text) is None


def test_calls_of_local_functions_take_the_graph():
    head = '<ir_version: 9, opset_import: ["" : 18, "local" : 1]>\n'
    functions = '\n<opset_import: ["" : 18], domain: "local"> f (a) => (b) { b = Neg (a) }'
    assert look("g (float[2] x) => (float[2] y) { y = Neg (x) }" + functions, head) is None


def test_an_input_without_a_shape_and_a_weight_in_another_file_take_the_graph():
    model = parser.parse_model(HEAD + PLAIN)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert glance(model) is None
    model = parser.parse_model(HEAD + PLAIN)
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(np.ones(3, np.float32), "w"))
    assert glance(model) is not None
    weight.data_location = onnx.TensorProto.EXTERNAL
    assert glance(model) is None


def test_a_node_that_leaves_out_an_input_takes_the_graph():
    model = parser.parse_model(HEAD + "g (float[2] x, float lo) => (float[2] y) { y = Clip (x, lo) }")
    assert glance(model) is not None
    model.graph.node[0].input[1] = ""
    assert glance(model) is None


def test_a_model_without_a_version_of_the_operators_takes_the_graph():
    model = parser.parse_model(HEAD + PLAIN)
    model.opset_import[0].domain = "other"
    assert glance(model) is None
