"""What scripts rely on: what an import gives, and the importer piece by piece."""

from __future__ import annotations

import logging
import typing
from collections import OrderedDict
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_gs as gs
from tests.support.reference_names import module
from tests.support.rewrites import model, run


def importer() -> Any:
    return module("importers.onnx_importer").OnnxImporter


SIMPLE = "g (float[n, 2] x) => (float[n, 2] y) <float[2] w = {1, 2}, float[n, 2] h> { h = Add (x, w) y = Relu (h) }"


# -- the model ------------------------------------------------------------------------------------


def test_fields_of_the_model() -> None:
    proto = model(SIMPLE, opset=17, ir_version=8)
    proto.producer_name, proto.producer_version = "tool", "1.2"
    proto.graph.doc_string = "note"
    graph = gs.import_onnx(proto)
    assert (graph.name, graph.doc_string, graph.opset, graph.ir_version) == ("g", "note", 17, 8)
    assert (graph.producer_name, graph.producer_version) == ("tool", "1.2")
    assert list(graph.import_domains) == list(proto.opset_import)
    assert graph.functions == []


@pytest.mark.parametrize("thing", ["model.onnx", b"bytes", None, onnx.GraphProto(), 3])
def test_only_models_are_imported(thing: Any) -> None:
    with pytest.raises((gs.OnnxGraphSurgeonException, AttributeError)):
        gs.import_onnx(thing)


def test_the_model_is_neither_changed_nor_kept() -> None:
    proto = model(SIMPLE)
    before = proto.SerializeToString()
    graph = gs.import_onnx(proto)
    graph.nodes[0].attrs["new"] = 1
    graph.tensors()["w"].name = "renamed"
    graph.inputs[0].shape = (3,)
    assert proto.SerializeToString() == before
    proto.graph.node[0].op_type = "Changed"
    proto.graph.initializer[0].raw_data = np.array([7, 7], np.float32).tobytes()
    assert graph.nodes[0].op == "Add"
    assert graph.tensors()["renamed"].values.tolist() == [1, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_the_opset_is_that_of_onnx(domain: str) -> None:
    proto = onnx.ModelProto(opset_import=[helper.make_opsetid("custom", 3), helper.make_opsetid(domain, 15)])
    assert importer().get_opset(proto) == 15
    assert gs.import_onnx(proto).opset == 15
    assert list(importer().get_import_domains(proto)) == list(proto.opset_import)
    assert importer().get_opset(onnx.FunctionProto(opset_import=[helper.make_opsetid(domain, 14)])) == 14


def test_without_the_opset_of_onnx_there_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        assert importer().get_opset(onnx.ModelProto(opset_import=[helper.make_opsetid("custom", 3)])) is None
    assert caplog.records


# -- weights --------------------------------------------------------------------------------------


def test_weights_are_lazy_constants() -> None:
    weight = gs.import_onnx(model(SIMPLE)).tensors()["w"]
    assert type(weight) is gs.Constant
    assert isinstance(weight._values, gs.LazyValues)
    assert (weight.dtype, tuple(weight.shape)) == (np.float32, (2,))
    assert weight.values.tolist() == [1, 2]


def test_a_weight_nobody_uses_is_in_no_list_of_tensors() -> None:
    graph = gs.import_onnx(model("g (float[2] x) => (float[2] y) <float[2] spare = {1, 2}> { y = Neg (x) }"))
    assert list(graph.tensors()) == ["x", "y"]


def test_an_output_that_is_a_weight_is_the_constant() -> None:
    graph = gs.import_onnx(model("g (float[2] x) => (float[2] w) <float[2] w = {1, 2}> { y = Neg (x) }"))
    assert isinstance(graph.outputs[0], gs.Constant)
    assert graph.outputs[0].values.tolist() == [1, 2]


def test_before_ir_4_weights_that_are_inputs_are_just_weights() -> None:
    proto = model("g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }", opset=7, ir_version=3)
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    graph = gs.import_onnx(proto)
    assert [t.name for t in graph.inputs] == ["x"]
    assert isinstance(graph.nodes[0].inputs[1], gs.Constant)
    assert gs.export_onnx(graph) == proto


def test_a_graph_on_its_own_takes_weights_that_are_inputs_for_weights() -> None:
    proto = model("g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }").graph
    proto.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    graph = importer().import_graph(proto)
    assert [t.name for t in graph.inputs] == ["x"]
    assert isinstance(graph.nodes[0].inputs[1], gs.Constant)
    assert module("exporters.onnx_exporter").OnnxExporter.export_graph(graph) == proto
    assert [i.name for i in gs.export_onnx(graph).graph.input] == ["x"]
    graph.nodes[0].inputs[1] = gs.Variable("z", np.float32, (2,))
    assert [i.name for i in module("exporters.onnx_exporter").OnnxExporter.export_graph(graph).input] == ["x"]
    given = importer().import_graph(proto, ir_version=8)
    assert [t.name for t in given.inputs] == ["x", "w"]
    assert module("exporters.onnx_exporter").OnnxExporter.export_graph(given) == proto


def test_where_the_values_came_from_is_kept() -> None:
    proto = model(SIMPLE)
    assert gs.import_onnx(proto).tensors()["w"].data_location is None  # type: ignore[attr-defined]
    stored = proto.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.ClearField("float_data")
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="w.bin")
    graph = gs.import_onnx(proto)
    weight = graph.tensors()["w"]
    assert weight.data_location == TensorProto.EXTERNAL  # type: ignore[attr-defined]
    assert tuple(weight.shape) == (2,)
    assert gs.export_onnx(graph) == proto


def test_external_data_are_looked_for_in_the_working_directory(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(np.array([3, 4], np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    stored = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="w.bin")
    assert importer().import_tensor(stored).values.tolist() == [3, 4]


# -- values ---------------------------------------------------------------------------------------


def test_values_have_types_and_shapes() -> None:
    tensors = gs.import_onnx(model(SIMPLE)).tensors()
    assert {name: (t.dtype, list(t.shape)) for name, t in tensors.items()} == {
        "x": (np.float32, ["n", 2]), "w": (np.float32, [2]), "h": (np.float32, ["n", 2]), "y": (np.float32, ["n", 2])
    }  # fmt: skip
    assert isinstance(tensors["x"].shape, list)


def test_dims_are_text_numbers_or_none() -> None:
    value = helper.make_tensor_value_info("x", 1, ["n", "", 3, None, 0])
    assert importer().import_tensor(value).shape == ["n", "", 3, None, 0]
    assert importer().import_tensor(helper.make_tensor_value_info("x", 1, None)).shape is None
    assert importer().import_tensor(helper.make_tensor_value_info("x", 1, [])).shape == []
    untyped = importer().import_tensor(onnx.ValueInfoProto(name="x"))
    assert (untyped.name, untyped.dtype, untyped.shape, untyped.type) == ("x", None, None, "tensor_type")


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_types_without_a_dtype_of_numpy_are_numbers(name: str) -> None:
    number = getattr(TensorProto, name)
    names = module("importers.onnx_importer")
    assert importer().import_tensor(helper.make_tensor_value_info("x", number, [1])).dtype == number
    assert importer().import_tensor(TensorProto(name="w", data_type=number, dims=[1], raw_data=b"\0\0")).dtype == number
    assert names.get_numpy_type(number) is None
    assert names.get_itemsize(number) == (2 if name == "BFLOAT16" else 1)
    assert names.get_dtype_name(number) == name


def test_dtypes_of_numbers() -> None:
    names = module("importers.onnx_importer")
    assert names.get_numpy_type(TensorProto.FLOAT) == np.float32
    assert names.get_numpy_type(np.int8) is np.int8
    assert names.get_numpy_type(TensorProto.STRING) == np.dtype(object)
    assert names.get_numpy_type(TensorProto.UNDEFINED) is None
    assert names.get_numpy_type(12345) is None
    assert names.get_itemsize(np.dtype("int64")) == 8
    assert names.get_dtype_name(TensorProto.INT64) == "INT64"


def test_what_messages_say() -> None:
    names = module("importers.onnx_importer")
    value, weight, nothing = helper.make_tensor_value_info("x", 7, [2, "n"]), TensorProto(data_type=1, dims=[3]), onnx.ValueInfoProto(name="u")
    assert (names.get_onnx_tensor_shape(value), names.get_onnx_tensor_dtype(value), names.get_onnx_tensor_type(value)) == ([2, "n"], np.int64, "tensor_type")
    assert (list(names.get_onnx_tensor_shape(weight)), names.get_onnx_tensor_dtype(weight)) == ([3], np.float32)
    assert (names.get_onnx_tensor_shape(nothing), names.get_onnx_tensor_type(nothing)) == (None, None)
    sequence = helper.make_tensor_sequence_value_info("s", 1, [2])
    assert (names.get_onnx_tensor_type(sequence), names.get_onnx_tensor_dtype(sequence)) == ("sequence_type", np.float32)
    assert importer().import_tensor(sequence).type == "sequence_type"


def test_sparse_weights() -> None:
    sparse = helper.make_sparse_tensor(helper.make_tensor("s", 1, [2], [1.0, 2.0]), helper.make_tensor("i", 7, [2], [0, 3]), [2, 2])
    constant = importer().import_tensor(sparse)
    assert type(constant._values) is gs.SparseValues
    assert (constant.name, tuple(constant.shape), constant.values.tolist()) == ("s", (2, 2), [[1, 0], [0, 2]])


# -- nodes ----------------------------------------------------------------------------------------


def test_nodes_find_their_tensors() -> None:
    message = helper.make_node("Add", ["outer", "inner", ""], ["out"], name="n", domain="d", axis=1)
    outer, inner = {"outer": gs.Variable("outer"), "out": gs.Variable("out")}, {"inner": gs.Variable("inner")}
    node = importer().import_node(message, outer, inner, 18, None)
    assert (node.op, node.name, node.domain, dict(node.attrs)) == ("Add", "n", "d", {"axis": 1})
    assert node.inputs[0] is outer["outer"]
    assert node.inputs[1] is inner["inner"]
    assert node.inputs[2].is_empty()
    assert node.outputs[0] is inner["out"]
    assert node.outputs[0] is not outer["out"]
    assert list(outer) == ["outer", "out"]


def test_omitted_inputs_are_empty_tensors_of_their_own() -> None:
    graph = gs.import_onnx(model('g (float[2] x) => (float[2] y, float[2] z) { y = Clip (x, "", "") z = Clip (x, "", "") }'))
    empty = [t for node in graph.nodes for t in node.inputs if t.is_empty()]
    assert len({id(t) for t in empty}) == 4


def test_the_domain_is_none_where_the_field_is_absent() -> None:
    proto = model(SIMPLE)
    proto.graph.node[0].ClearField("domain")
    proto.graph.node[1].domain = ""
    assert [node.domain for node in gs.import_onnx(proto).nodes] == [None, ""]


def test_attributes_are_python_values_in_their_order() -> None:
    weight = helper.make_tensor("t", 1, [2], [1.0, 2.0])
    given = {"z": 1.5, "i": 3, "s": "text", "t": weight, "fs": [1.5, 2.5], "is": [1, 2], "ss": ["a", "b"]}
    attributes = importer().import_attributes([helper.make_attribute(k, v) for k, v in given.items()], {}, {}, 18, None)
    assert isinstance(attributes, OrderedDict)
    assert list(attributes) == list(given)
    constant = attributes.pop("t")
    assert isinstance(constant, gs.Constant)
    assert isinstance(constant._values, gs.LazyValues)
    assert constant.values.tolist() == [1, 2]
    assert attributes == {k: v for k, v in given.items() if k != "t"}
    assert [type(attributes[k]) for k in ("fs", "is", "ss")] == [list] * 3


@pytest.mark.parametrize(
    ("number", "kind"),
    [("FLOAT", float), ("INT", int), ("STRING", str), ("TENSOR", gs.Tensor), ("FLOATS", typing.List[float]), ("INTS", typing.List[int]),  # noqa: UP006
     ("STRINGS", typing.List[str]), ("UNDEFINED", None)],  # noqa: UP006
)  # fmt: skip
def test_references_have_the_python_side_type(number: str, kind: Any) -> None:
    message = onnx.AttributeProto(name="a", ref_attr_name="theirs", type=getattr(onnx.AttributeProto, number))
    assert importer().import_attributes([message], {}, {}, 18, None)["a"] == gs.Node.AttributeRef("theirs", kind)
    assert module("util.misc").convert_from_onnx_attr_type(message.type) == kind
    assert module("util.misc").convert_to_onnx_attr_type(kind) == message.type


# -- bodies ---------------------------------------------------------------------------------------

BODY = """g (float[2] x, bool b) => (float[2] y) <float[2] h> {
    h = Relu (x)
    y = If (b) <then_branch = t () => (float[2] y) { y = Neg (h) }, else_branch = e () => (float[2] q) <float[2] h2 = {1, 2}> { q = Add (h, h2) }> }"""


def test_bodies_share_what_they_capture() -> None:
    graph = gs.import_onnx(model(BODY))
    then, other = graph.nodes[1].attrs["then_branch"], graph.nodes[1].attrs["else_branch"]
    assert then.nodes[0].inputs[0] is graph.nodes[0].outputs[0]
    assert sorted(n.op for n in graph.nodes[0].outputs[0].outputs) == ["Add", "Neg"]
    assert then.outputs[0] is not graph.outputs[0]
    assert then.outputs[0].inputs[0] is then.nodes[0]
    assert (then.opset, then.import_domains, then.ir_version) == (graph.opset, graph.import_domains, None)
    assert then.functions is graph.functions
    assert isinstance(other.nodes[0].inputs[1], gs.Constant)


def test_inputs_and_values_of_a_body_are_its_own_under_equal_names() -> None:
    text = """g (float[2] x, int64 n, bool c) => (float[2] y) <float[2] h> {
        h = Relu (x)
        y = Loop (n, c, h) <body = b (int64 i, bool k, float[2] x) => (bool k2, float[2] h) { k2 = Identity (k) h = Neg (x) }> }"""
    proto = model(text)
    graph = gs.import_onnx(proto)
    body = graph.nodes[1].attrs["body"]
    assert body.inputs[2] is not graph.inputs[0]
    assert body.nodes[1].inputs[0] is body.inputs[2]
    assert body.outputs[1] is not graph.nodes[0].outputs[0]
    assert gs.export_onnx(graph) == proto  # ONNX Runtime runs no model in which names hide others


def test_a_graph_finds_outer_tensors_in_a_map_that_it_leaves_alone() -> None:
    outer = {"o": gs.Variable("o"), "y": gs.Variable("y")}
    graph = importer().import_graph(model("g (float[2] x) => (float[2] y) { y = Add (x, o) }").graph, tensor_map=outer, opset=13)
    assert graph.nodes[0].inputs[1] is outer["o"]
    assert graph.outputs[0] is not outer["y"]
    assert list(outer) == ["o", "y"]
    assert graph.opset == 13
    functions = [gs.Function("F")]
    whole = importer().import_graph(model(SIMPLE).graph, producer_name="p", producer_version="1", functions=functions, ir_version=8, import_domains=[])
    assert (whole.producer_name, whole.producer_version, whole.ir_version, whole.functions) == ("p", "1", 8, functions)


def test_what_a_body_captures_may_be_listed_later() -> None:
    text = """g (float[2] x, bool b) => (float[2] y) {
        y = If (b) <then_branch = t () => (float[2] p) { p = Neg (h) }, else_branch = e () => (float[2] q) { q = Abs (h) }>
        h = Relu (x) }"""
    graph = gs.import_onnx(model(text))
    branch = graph.nodes[0].attrs["then_branch"]
    assert branch.nodes[0].inputs[0] is graph.nodes[1].outputs[0]
    feeds = {"x": np.array([1, -2], np.float32), "b": np.array(True)}
    assert run(gs.export_onnx(graph.toposort()), feeds)[0].tolist() == [-1, 0]
