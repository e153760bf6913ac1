"""Schemas as the installed onnx states them, traits, domains, and nodes made to fit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.ir.names import Names
from onnx_gs.ops import domains, schema, traits
from onnx_gs.ops.builder import Builder


def test_schemas_by_version():
    assert schema.find("Squeeze", 11).attributes["axes"].is_required is False
    assert "axes" not in schema.find("Squeeze", 13).attributes
    assert schema.find("Clip", 13).input(1).is_optional
    assert schema.find("Concat", 13).input(5).is_variadic
    assert schema.find("Gemm", 13).attributes["alpha"].default == 1.0
    assert schema.find("LSTM", 14).attributes["direction"].default == "forward"
    assert "tensor(float)" in schema.find("Add", 14).constraints["T"]
    assert schema.find("Clip", 13).has_function_body
    assert schema.find("GreaterOrEqual", 16).has_function_body
    assert schema.find("NoSuchOp", 18) is None
    assert schema.find("Clip", 13).since_version == 13
    assert schema.find("Normalizer", 3, "ai.onnx.ml").domain == "ai.onnx.ml"


def test_every_tensor_type_of_a_schema_is_known():
    spelled = {name for s in onnx.defs.get_all_schemas_with_history() for c in s.type_constraints for name in c.allowed_type_strs}
    assert {name for name in spelled if schema.element_type(name) is None} == {name for name in spelled if not name.startswith("tensor(")}


def test_schema_of_a_node_and_defaults():
    graph = gs.Graph(opset=18)
    node = gs.Node("Gather", domain="ai.onnx")
    assert schema.of(graph, node).op == "Gather"
    assert schema.attribute(graph, node, "axis") == 0
    assert schema.attribute(graph, gs.Node("Gather", attrs={"axis": 2}), "axis") == 2
    assert schema.of(graph, gs.Node("Gather", domain="mine")) is None


@pytest.mark.parametrize(("node", "position", "expected"), [
    (gs.Node("MaxPool"), 1, True), (gs.Node("MaxPool"), 0, False), (gs.Node("Split"), 0, False), (gs.Node("LSTM"), 0, True),
    (gs.Node("Mine", domain="mine"), 0, True), (gs.Node("Dropout"), 1, True), (gs.Node("If"), 0, False), (gs.Node("TopK"), 0, False),
])  # fmt: skip
def test_outputs_that_may_be_left_out(node, position, expected):
    assert schema.may_omit_output(node, position, 18) is expected


def test_tables_hold_operators_that_exist():
    names = set().union(
        traits.RANDOM, traits.QUANTIZING, traits.CONTROL_FLOW, traits.SEQUENCE, traits.OPTIONAL, traits.MOVEMENT, traits.ELEMENTWISE,
        traits.REDUCING, traits.STATEFUL,
    )  # fmt: skip
    import onnx.defs

    newer = {"Swish"}
    assert [name for name in sorted(names - newer) if schema.find(name, onnx.defs.onnx_opset_version()) is None] == []


@pytest.mark.parametrize(("node", "reason"), [
    (gs.Node("RandomNormal"), "random"), (gs.Node("Add"), None), (gs.Node("QuantizeLinear"), "quantization stays visible"),
    (gs.Node("Anything", domain="mine"), "domain 'mine' is unknown"), (gs.Node("RandomNormal", domain="mine"), "domain 'mine' is unknown"),
    (gs.Node("Normalizer", domain="ai.onnx.ml"), None), (gs.Node("Dropout"), None), (gs.Node("BatchNormalization", attrs={"training_mode": 1}), "in training mode"),
    (gs.Node("Dropout", inputs=[gs.Variable("x"), gs.Variable.empty(), gs.Variable("mode")]), "in training mode"),
    (gs.Node("Dropout", inputs=[gs.Variable("x"), gs.Variable.empty(), gs.Constant("mode", np.array(False))]), None),
])  # fmt: skip
def test_never_folds(node, reason):
    assert traits.never_folds(node) == reason


def test_domains():
    assert domains.canonical("ai.onnx") == ""
    assert domains.version(gs.Graph(opset=17), "ai.onnx") == 17
    assert domains.version(gs.Graph(opset=17), "mine") is None


def test_builder_makes_checked_nodes():
    x = gs.Variable("x", np.float32, (2, 2))
    op = Builder(Names(gs.Graph(inputs=[x])), 18, prefix="p")
    y = op.Add(x, 1.0)
    values, indices = op.TopK(y, [1], outputs=2, axis=0)
    assert [n.op for n in op.nodes] == ["Add", "TopK"]
    assert op.nodes[0].inputs[1].dtype == np.float32
    assert op.nodes[1].inputs[1].values.tolist() == [1]
    assert values.name != indices.name
    clipped = op.Clip(y, None, 2.0)
    assert op.nodes[-1].inputs[1].is_empty()
    assert clipped.inputs[0] is op.nodes[-1]
    for bad in (lambda: op.Add(x), lambda: op.NoSuchOp(x), lambda: op.Squeeze(x, axes=[0]), lambda: op.Concat(x)):
        with pytest.raises(gs.GraphValueError):
            bad()
    with pytest.raises(AttributeError):
        op.add(x, x)
