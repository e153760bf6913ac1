"""What scripts rely on: local functions."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper

import onnx_gs as gs
from tests.support.reference_names import module
from tests.support.rewrites import assert_same, model, run


def v(name: str, dtype: Any = np.float32, shape: Any = (2,)) -> gs.Variable:
    return gs.Variable(name, dtype, shape)


def scaled(**options: Any) -> gs.Function:
    """``y = k * (x + w)``, with ``k`` an attribute."""
    x, h, k, y = v("x"), v("h"), v("k", shape=()), v("y")
    nodes = [
        gs.Node("Add", inputs=[x, gs.Constant("w", np.array([1, 2], np.float32))], outputs=[h]),
        gs.Node("Constant", attrs={"value_float": gs.Node.AttributeRef("factor", float)}, outputs=[k]),
        gs.Node("Mul", inputs=[h, k], outputs=[y]),
    ]
    return gs.Function("Scaled", nodes=nodes, inputs=[x], outputs=[y], opset=18, attrs={"factor": None}, **options)


def calling(function: gs.Function, **attrs: Any) -> gs.Graph:
    graph = gs.Graph(inputs=[v("x")], functions=[function], opset=18, ir_version=9)
    graph.outputs = list(function(graph, inputs=graph.inputs, attrs=attrs))
    return graph


def test_defaults() -> None:
    function = gs.Function("F")
    assert gs.Function.DEFAULT_DOMAIN == "onnx_graphsurgeon"
    assert (function.name, function.domain, function.unique_id) == ("F", "onnx_graphsurgeon", ("onnx_graphsurgeon", "F"))
    assert (function.attrs, function.functions, function.nodes, function.inputs, function.outputs) == ({}, [], [], [], [])
    assert (function.opset, function.doc_string, function.import_domains, function.ir_version) == (11, "", None, None)
    assert gs.Function("F", domain="d").unique_id == ("d", "F")
    assert isinstance(function, gs.Graph)


def test_equality_is_about_id_opsets_and_body() -> None:
    assert scaled() == scaled(doc_string="d")
    for other in (scaled(domain="d"), gs.Function("Other")):
        assert scaled() != other
    fewer = scaled()
    fewer.nodes.pop()
    assert scaled() != fewer
    attrs = scaled()
    attrs.attrs = {"factor": 2.0}
    assert scaled() == attrs
    newer = scaled()
    newer.opset = 19
    assert scaled() != newer
    assert scaled() != scaled(import_domains=[helper.make_opsetid("", 18)])


def test_a_copy_has_nodes_of_its_own() -> None:
    function = scaled(domain="d", doc_string="note", import_domains=[helper.make_opsetid("", 18)], ir_version=9)
    function.attrs["list"] = [1, 2]
    new = function.copy()
    assert new == function
    for field in ("name", "domain", "doc_string", "opset", "import_domains", "attrs", "ir_version", "functions", "unique_id"):
        assert getattr(new, field) == getattr(function, field)
    assert all(a is not b for a, b in zip(new.nodes, function.nodes))
    assert all(a is not b for a, b in zip((*new.inputs, *new.outputs), (*function.inputs, *function.outputs)))
    new.attrs["list"].append(3)
    assert function.attrs["list"] == [1, 2]


# -- calls ----------------------------------------------------------------------------------------


def test_a_call_appends_a_node_of_the_functions_name_and_domain() -> None:
    function = scaled(domain="d")
    graph = gs.Graph(functions=[function])
    outputs = graph.Scaled(inputs=["in"], attrs={"factor": 2.0})
    (node,) = graph.nodes
    assert outputs is node.outputs
    assert (node.op, node.domain, node.attrs) == ("Scaled", "d", {"factor": 2.0})
    assert function(graph, inputs=[v("z")], name="mine", attrs={"factor": 1.0}) is graph.nodes[1].outputs
    assert graph.nodes[1].name == "mine"


def test_outputs_that_are_made_have_the_types_of_the_function() -> None:
    graph = gs.Graph(functions=[scaled()])
    (made,) = graph.Scaled(inputs=[v("a")], attrs={"factor": 1.0})
    assert (made.name, made.dtype, made.shape) == ("y_0", np.float32, (2,))
    (named,) = graph.Scaled(inputs=[v("a")], outputs=["name"], attrs={"factor": 1.0})
    assert (named.name, named.dtype, named.shape) == ("name_2", np.float32, (2,))
    given = gs.Variable("given")
    (kept,) = graph.Scaled(inputs=[v("a")], outputs=[given], attrs={"factor": 1.0})
    assert kept is given
    assert (given.dtype, given.shape) == (None, None)


@pytest.mark.parametrize(
    ("inputs", "outputs", "attrs"), [([], None, {"factor": 1.0}), (["a", "b"], None, {"factor": 1.0}), (["a"], ["p", "q"], {"factor": 1.0}), (["a"], None, {})]
)
def test_wrong_calls_are_told_but_made(inputs: Any, outputs: Any, attrs: Any, caplog: pytest.LogCaptureFixture) -> None:
    graph = gs.Graph(functions=[scaled()])
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        graph.Scaled(inputs=inputs, outputs=outputs, attrs=attrs)
    assert len(graph.nodes) == 1
    assert "Scaled" in caplog.text


def test_right_calls_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        gs.Graph(functions=[scaled()]).Scaled(inputs=["a"], attrs={"factor": 1.0})
        gs.Graph(functions=[scaled()]).Scaled(inputs=["a"])
    assert caplog.text == ""


def test_a_call_computes_what_the_body_says() -> None:
    proto = gs.export_onnx(calling(scaled(), factor=3.0))
    onnx.checker.check_model(proto, full_check=True)
    x = np.array([1, 1], np.float32)
    assert run(proto, {"x": x})[0].tolist() == [6, 9]
    assert run(gs.export_onnx(gs.import_onnx(proto)), {"x": x})[0].tolist() == [6, 9]


def test_functions_of_one_name_are_told_apart_by_domain_in_a_call(caplog: pytest.LogCaptureFixture) -> None:
    first, second = gs.Function("F", domain="a", outputs=[v("y")]), gs.Function("F", domain="b", outputs=[v("y")])
    graph = gs.Graph(functions=[first, second])
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        graph.F(inputs=[])
    assert graph.nodes[0].domain == "a"
    assert "'F'" in caplog.text


# -- export and import ----------------------------------------------------------------------------


def test_weights_of_a_body_are_constant_nodes_in_the_message_only() -> None:
    function = scaled()
    before = list(function.nodes)
    proto = module("exporters.onnx_exporter").OnnxExporter.export_function(function)
    assert [(node.op_type, list(node.output)) for node in proto.node] == [("Constant", ["w"]), ("Add", ["h"]), ("Constant", ["k"]), ("Mul", ["y"])]
    assert all(a is b for a, b in zip(function.nodes, before))
    assert not function.tensors()["w"].inputs


def test_required_attributes_are_names_and_others_have_defaults() -> None:
    function = scaled(doc_string="note")
    function.attrs = {"factor": None, "alpha": 1.5, "axes": [1, 2], "mode": "linear"}
    proto = module("exporters.onnx_exporter").OnnxExporter.export_function(function)
    assert list(proto.attribute) == ["factor"]
    assert [(a.name, a.type) for a in proto.attribute_proto] == [
        ("alpha", AttributeProto.FLOAT), ("axes", AttributeProto.INTS), ("mode", AttributeProto.STRING)
    ]  # fmt: skip
    assert (proto.name, proto.domain, proto.doc_string) == ("Scaled", "onnx_graphsurgeon", "note")
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", 18)]
    again = module("importers.onnx_importer").OnnxImporter.import_function(proto)
    assert again.attrs == {"factor": None, "alpha": 1.5, "axes": [1, 2], "mode": "linear"}
    assert (again.name, again.domain, again.doc_string, again.opset) == ("Scaled", "onnx_graphsurgeon", "note", 18)
    assert (list(proto.input), list(proto.output)) == (["x"], ["y"])


def test_a_domain_of_none_is_the_empty_one() -> None:
    function = scaled()
    function.domain = None  # type: ignore[assignment]
    assert module("exporters.onnx_exporter").OnnxExporter.export_function(function).domain == ""


def test_domains_that_a_body_uses_are_imported() -> None:
    function = scaled()
    function.nodes.append(gs.Node("Other", inputs=[function.outputs[0]], outputs=[v("z")], domain="custom"))
    proto = module("exporters.onnx_exporter").OnnxExporter.export_function(function)
    assert sorted((o.domain, o.version) for o in proto.opset_import) == [("", 18), ("custom", 1)]


def test_opsets_come_from_the_function_else_from_the_model() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = local.F (x) }", opset=18, functions='<domain: "local", opset_import: ["" : 17]> F (x) => (y) { y = Neg (x) }')
    graph = gs.import_onnx(proto)
    assert (graph.opset, graph.functions[0].opset) == (18, 17)
    del proto.functions[0].opset_import[:]
    assert gs.import_onnx(proto).functions[0].opset == 18


def test_references_come_back_as_references() -> None:
    graph = gs.import_onnx(gs.export_onnx(calling(scaled(), factor=3.0)))
    (reference,) = (a for n in graph.functions[0].nodes for a in n.attrs.values() if isinstance(a, gs.Node.AttributeRef))
    assert reference == gs.Node.AttributeRef("factor", float)


def test_overloads_are_kept_and_called() -> None:
    if "overload" not in onnx.FunctionProto.DESCRIPTOR.fields_by_name:
        pytest.skip("this onnx has no overloads")
    proto = model(
        "g (float[2] x) => (float[2] y) { h = local.F (x) y = local.F (h) }",
        functions='<domain: "local", opset_import: ["" : 18]> F (x) => (y) { y = Neg (x) }\n<domain: "local", opset_import: ["" : 18]> F (x) => (y) { y = Exp (x) }',
        ir_version=10,
    )
    for function, node, overload in zip(proto.functions, proto.graph.node, ("a", "b")):
        function.overload = node.overload = overload
    graph = gs.import_onnx(proto)
    assert gs.export_onnx(graph) == proto
    assert [f.overload for f in graph.functions] == ["a", "b"]
    x = np.array([1, -2], np.float32)
    assert_same(run(proto, {"x": x}), run(gs.export_onnx(graph.copy()), {"x": x}))


def test_values_and_metadata_of_functions_are_kept() -> None:
    if "value_info" not in onnx.FunctionProto.DESCRIPTOR.fields_by_name:
        pytest.skip("this onnx cannot describe values of functions")
    proto = model("g (float[2] x) => (float[2] y) { y = local.F (x) }", ir_version=10, functions='<domain: "local", opset_import: ["" : 18]> F (x) => (y) { y = Neg (x) }')
    proto.functions[0].value_info.append(helper.make_tensor_value_info("y", 1, [2]))
    proto.functions[0].metadata_props.add(key="k", value="v")
    graph = gs.import_onnx(proto)
    assert gs.export_onnx(graph) == proto
    assert graph.functions[0].outputs[0].shape == [2]


# -- order and cleanup ----------------------------------------------------------------------------


def test_a_function_sorts_its_own_body() -> None:
    function = scaled()
    function.nodes.reverse()
    assert function.toposort() is function
    assert [n.op for n in function.nodes][-1] == "Mul"


def test_a_function_cleans_its_own_body(caplog: pytest.LogCaptureFixture) -> None:
    function = scaled()
    function.nodes.append(gs.Node("Neg", inputs=[function.inputs[0]], outputs=[v("dead")]))
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        assert function.cleanup() is function
        assert caplog.text == ""
        function.cleanup(recurse_functions=True).toposort(recurse_functions=True)
    assert caplog.text.count("recurse_functions") == 2
    assert [n.op for n in function.nodes] == ["Add", "Constant", "Mul"]
    assert [t.name for t in function.inputs] == ["x"]


def test_a_model_with_a_function_and_a_body_can_be_sorted() -> None:
    proto = model(
        """g (float[2] x, bool b) => (float[2] y) { h = local.F (x)
             y = If (b) <then_branch = t () => (float[2] p) { p = local.F (h) }, else_branch = e () => (float[2] q) { q = Neg (h) }> }""",
        functions='<domain: "local", opset_import: ["" : 18]> F (x) => (y) { y = Exp (x) }',
    )
    graph = gs.import_onnx(proto)
    graph.nodes.reverse()
    graph.toposort().cleanup()
    assert [n.op for n in graph.nodes] == ["F", "If"]
    feeds = {"x": np.array([1, -2], np.float32), "b": np.array(True)}
    assert_same(run(proto, feeds), run(gs.export_onnx(graph), feeds))


def test_calls_in_bodies_of_functions_order_the_functions() -> None:
    inner = gs.Graph([gs.Node("Callee", domain=gs.Function.DEFAULT_DOMAIN)])
    caller = gs.Function("Caller", nodes=[gs.Node("If", attrs={"then_branch": gs.Graph([gs.Node("If", attrs={"then_branch": inner})])})])
    graph = gs.Graph(functions=[caller, gs.Function("Callee")])
    assert [f.name for f in graph.toposort().functions] == ["Callee", "Caller"]


def test_copies_of_a_graph_have_functions_of_their_own() -> None:
    graph = calling(scaled(), factor=2.0)
    new = graph.copy()
    assert new.functions[0] is not graph.functions[0]
    assert new.functions[0] == graph.functions[0]
    new.functions[0].nodes.pop()
    assert len(graph.functions[0].nodes) == 3


def test_copying_and_folding_leave_the_originals_list_alone() -> None:
    graph = calling(scaled(), factor=2.0)
    functions = graph.functions
    graph.copy()
    graph.fold_constants()
    assert graph.functions is functions
    assert functions[0].functions is functions


def test_functions_of_a_body_attached_later_are_exported() -> None:
    function = scaled()
    x, p, y, b = v("x"), v("p"), v("y"), gs.Variable("b", np.bool_, ())
    body = gs.Graph(functions=[function], opset=18)
    body.outputs = list(function(body, inputs=[x], outputs=[p], attrs={"factor": 2.0}))
    graph = gs.Graph(inputs=[x, b], outputs=[y], opset=18, ir_version=9)
    other = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[v("q")])], opset=18)
    other.outputs = list(other.nodes[0].outputs)
    graph.nodes.append(gs.Node("If", attrs={"then_branch": body, "else_branch": other}, inputs=[b], outputs=[y]))
    proto = gs.export_onnx(graph)
    assert [f.name for f in proto.functions] == ["Scaled"]
    assert run(proto, {"x": np.array([1, 1], np.float32), "b": np.array(True)})[0].tolist() == [4, 6]


def test_a_list_of_functions_given_to_two_graphs_is_not_shared_between_them() -> None:
    given = (gs.Function("F"),)
    first, second = gs.Graph(functions=given), gs.Graph(functions=list(given))
    first.functions.append(gs.Function("G"))
    assert [f.name for f in second.functions] == ["F"]
    kept = [gs.Function("H")]
    gs.Graph(functions=kept).functions.append(gs.Function("I"))
    assert len(kept) == 1
