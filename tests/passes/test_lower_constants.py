"""Constant nodes become weights, in all seven forms."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.passes.lower_constants import LowerConstants, lower_all
from tests.support.rewrites import parse

SPARSE = oh.make_sparse_tensor(oh.make_tensor("", 1, [2], [5.0, 6.0]), oh.make_tensor("", 7, [2], [1, 3]), [2, 2])


@pytest.mark.parametrize(("attribute", "expected"), [
    ({"value": onnx.numpy_helper.from_array(np.int8([[1, 2]]))}, np.int8([[1, 2]])),
    ({"value_float": 0.5}, np.float32(0.5)),
    ({"value_floats": [0.5, 1.5]}, np.float32([0.5, 1.5])),
    ({"value_int": 3}, np.int64(3)),
    ({"value_ints": [3, 4]}, np.int64([3, 4])),
    ({"value_string": "a"}, np.array("a", object)),
    ({"value_strings": ["a", "b"]}, np.array(["a", "b"], object)),
    ({"sparse_value": SPARSE}, np.float32([[0, 5], [0, 6]])),
])  # fmt: skip
def test_each_form(attribute, expected):
    node = oh.make_node("Constant", [], ["c"], **attribute)
    use = oh.make_node("Identity", ["c"], ["y"])
    kind = oh.np_dtype_to_tensor_dtype(expected.dtype)
    model = oh.make_model(oh.make_graph([node, use], "g", [], [oh.make_tensor_value_info("y", kind, expected.shape)]), opset_imports=[oh.make_opsetid("", 18)])
    graph = gs.import_onnx(model)
    report = LowerConstants()(graph)
    assert [n.op for n in graph.nodes] == ["Identity"]
    assert [e.op for e in report.rewritten] == ["Constant"]
    weight = graph.nodes[0].inputs[0]
    assert isinstance(weight, gs.Constant)
    assert weight.name == "c"
    assert weight.values.dtype == expected.dtype
    assert weight.shape == expected.shape
    assert weight.values.tolist() == expected.tolist()
    again = gs.import_onnx(gs.export_onnx(graph))
    assert again.nodes[0].inputs[0].values.tolist() == expected.tolist()


def test_values_stay_unread():
    graph = parse("g () => (float[2] y) { c = Constant <value = float[2] {1, 2}> () y = Neg (c) }")
    LowerConstants()(graph)
    assert isinstance(graph.nodes[0].inputs[0]._values, gs.LazyValues)


def test_other_attributes_and_references_stay():
    graph = gs.Graph([gs.Node("Constant", attrs={"value_float": 1.0, "value_int": 2}, outputs=[gs.Variable("y")])])
    assert LowerConstants()(graph).declined
    assert len(graph.nodes) == 1
    functions = '<domain: "local", opset_import: ["" : 18]> F <a> (x) => (y) { c = Constant <value_float: float = @a> () y = Mul (x, c) }'
    graph = parse("g (float[2] x) => (float[2] y) { y = local.F <a = 3.0> (x) }", functions=functions)
    LowerConstants()(graph)
    assert [n.op for n in graph.functions[0].nodes] == ["Constant", "Mul"]


def test_constants_in_bodies_become_weights_there():
    graph = parse("""g (bool c) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] p) { p = Constant <value_floats = [1.0, 2.0]> () },
        else_branch = e () => (float[2] q) { k = Constant <value_floats = [1.0, 2.0]> () q = Neg (k) }> }""")
    LowerConstants()(graph)
    assert [len(b.nodes) for b in graph.nodes[0].subgraphs()] == [0, 1]
    onnx.checker.check_model(gs.export_onnx(graph))


def test_lowering_all_may_take_the_nodes_out():
    graph = gs.import_onnx(onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "other": 1]> g (float[1] x) => (float[1] y) {
        a = Constant <value_float = 2.0> () b = other.Constant <value_float = 2.0> () c = Mul (x, a) y = Add (c, b) }"""))
    kept = graph.copy()
    lower_all([kept])
    assert [node.op for node in kept.nodes] == ["Constant", "Constant", "Mul", "Add"]
    graph.nodes[1].outputs.clear()
    lower_all([graph], drop=True)
    assert [(node.domain or "", node.op) for node in graph.nodes] == [("other", "Constant"), ("", "Mul"), ("", "Add")]
    assert graph.nodes[1].inputs[1].values.tolist() == 2.0
