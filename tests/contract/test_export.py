"""What scripts rely on: what an export writes, and the exporter piece by piece."""

from __future__ import annotations

import logging
import sys
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import onnx_gs as gs
from tests.support.reference_names import module
from tests.support.rewrites import assert_same, model, parse, run


def exporter() -> Any:
    return module("exporters.onnx_exporter").OnnxExporter


def v(name: str, dtype: Any = np.float32, shape: Any = (2,)) -> gs.Variable:
    return gs.Variable(name, dtype, shape)


def neg(**options: Any) -> gs.Graph:
    x, y = v("x"), v("y")
    return gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y], **{"opset": 18, "ir_version": 9, **options})


# -- the model ------------------------------------------------------------------------------------


def test_fields_of_the_model() -> None:
    proto = gs.export_onnx(neg(name="n", doc_string="d", producer_name="p", producer_version="1"))
    assert (proto.graph.name, proto.graph.doc_string, proto.producer_name, proto.producer_version, proto.ir_version) == ("n", "d", "p", "1", 9)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", 18)]
    assert gs.export_onnx(neg(ir_version=None)).ir_version == onnx.IR_VERSION


def test_keywords_are_fields_of_the_model() -> None:
    proto = gs.export_onnx(neg(), doc_string="d", domain="a.b", model_version=3, opset_imports=[helper.make_opsetid("", 17)], functions=["ignored"])
    assert (proto.doc_string, proto.domain, proto.model_version) == ("d", "a.b", 3)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", 17)]
    assert not proto.functions
    entries = onnx.ModelProto(metadata_props=[onnx.StringStringEntryProto(key="k", value="v")]).metadata_props
    for given in (entries, list(entries), {"k": "v"}):
        assert list(gs.export_onnx(neg(), metadata_props=given).metadata_props) == list(entries)


@pytest.mark.parametrize(("keyword", "value"), [("nonsense", 3), ("opset_import", []), ("ir_version", "x"), ("metadata_props", 3), ("doc_string", 3), ("domain", None)])
def test_keywords_that_no_model_has_are_refused(keyword: str, value: Any) -> None:
    with pytest.raises((AttributeError, TypeError), match=keyword) as caught:
        gs.export_onnx(neg(), **{keyword: value})
    assert isinstance(caught.value, gs.OnnxGraphSurgeonException)


def test_domains_that_nodes_use_are_imported_also_those_in_bodies() -> None:
    graph = neg()
    inner = gs.Graph([gs.Node("Inner", domain="inner")])
    graph.nodes.append(gs.Node("If", attrs={"then_branch": inner}, outputs=[v("z")]))
    graph.nodes.append(gs.Node("Outer", domain="outer", outputs=[v("o")]))
    assert sorted((o.domain, o.version) for o in gs.export_onnx(graph).opset_import) == [("", 18), ("inner", 1), ("outer", 1)]
    update = module("exporters.onnx_exporter").update_import_domains
    found = update(graph)
    assert sorted((o.domain, o.version) for o in found) == [("", 18), ("inner", 1), ("outer", 1)]
    assert graph.import_domains is found


def test_versions_that_are_given_stay() -> None:
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("custom", 7)]
    graph = neg(import_domains=domains)
    graph.nodes[0].domain = "custom"
    assert [(o.domain, o.version) for o in gs.export_onnx(graph).opset_import] == [("", 18), ("custom", 7)]


def test_an_unedited_import_is_written_as_it_was() -> None:
    scan = """g (float[n, 2] x, float[2] i) => (float[2] o, float[n, 2] r) <float[2] w = {1, 2}, float[2] i2> {
        i2 = Add (i, w)
        o, r = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] s2, float[2] w) { s2 = Add (s, e) w = Identity (s2) }> (i2, x) }"""
    proto = model(scan)
    proto.graph.value_info[0].doc_string = "note"
    assert gs.export_onnx(gs.import_onnx(proto)) == proto


# -- inputs, outputs, values ----------------------------------------------------------------------


def test_inputs_and_outputs_need_an_element_type() -> None:
    graph = neg()
    graph.inputs[0].dtype = None
    with pytest.raises(gs.OnnxGraphSurgeonException, match="'x'"):
        gs.export_onnx(graph)
    assert not gs.export_onnx(graph, do_type_check=False).graph.input[0].HasField("type")
    assert not gs.export_onnx(graph, False).graph.input[0].HasField("type")
    with pytest.raises(gs.OnnxGraphSurgeonException):
        exporter().export_graph(graph)
    assert exporter().export_graph(graph, do_type_check=False).input[0].name == "x"


def test_bodies_are_never_checked() -> None:
    inner = gs.Graph(inputs=[gs.Variable("i")], outputs=[gs.Variable("o")])
    graph = neg()
    graph.nodes.append(gs.Node("Custom", attrs={"body": inner}, outputs=[v("z")], domain="custom"))
    attribute = gs.export_onnx(graph).graph.node[1].attribute[0]
    assert not attribute.g.input[0].HasField("type")


def test_known_values_are_described_in_the_order_of_the_tensors() -> None:
    a, b, c, unknown, x, y = v("a"), v("b", None, (2,)), v("c", np.int8, None), gs.Variable("u"), v("x"), v("y")
    nodes = [gs.Node("N", inputs=[s], outputs=[t]) for s, t in zip((x, c, a, b, unknown), (c, a, b, unknown, y))]
    graph = gs.export_onnx(gs.Graph(nodes, [x], [y], opset=18)).graph
    assert [i.name for i in graph.value_info] == ["c", "a"]
    assert not graph.value_info[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    ("dim", "kind", "value"), [(None, None, None), ("", "dim_param", ""), ("n", "dim_param", "n"), (0, "dim_value", 0), (np.int64(3), "dim_value", 3)]
)
def test_dims(dim: Any, kind: Any, value: Any) -> None:
    info = exporter().export_value_info_proto(v("x", shape=(dim,)), True)
    (found,) = info.type.tensor_type.shape.dim
    assert found.WhichOneof("value") == kind
    assert kind is None or getattr(found, kind) == value


@pytest.mark.parametrize("dim", [2.0, 2.5, object(), (1,)])
def test_what_is_no_dim_is_refused(dim: Any) -> None:
    with pytest.raises((gs.OnnxGraphSurgeonException, TypeError)):
        exporter().export_value_info_proto(v("x", shape=(dim,)), True)


def test_shapes() -> None:
    export = exporter().export_value_info_proto
    assert not export(v("x", shape=None), True).type.tensor_type.HasField("shape")
    assert export(v("x", shape=()), True).type.tensor_type.HasField("shape")
    assert len(export(v("x", shape=np.array([2, 3])), True).type.tensor_type.shape.dim) == 2
    assert export(gs.Variable("x"), False).type.WhichOneof("value") is None
    with pytest.raises(gs.OnnxGraphSurgeonException):
        export(gs.Variable("x"), True)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(np.float32, 1), (np.dtype("int64"), 7), ("float16", 10), (TensorProto.BFLOAT16, 16), (ml_dtypes.bfloat16, 16), (np.dtype(ml_dtypes.float8_e5m2), 19),
     (bool, 9), (float, 11), (int, 7), (object, 8), (str, 8), (np.complex64, 14), (1, 1)],
)  # fmt: skip
def test_spellings_of_element_types(dtype: Any, number: int) -> None:
    assert exporter().export_value_info_proto(v("x", dtype), True).type.tensor_type.elem_type == number
    if dtype is not str:
        assert module("exporters.onnx_exporter").dtype_to_onnx(dtype) == number


@pytest.mark.parametrize("dtype", ["no such type", object(), 1.5, np.dtype("M8[s]")])
def test_what_is_no_element_type_is_refused(dtype: Any) -> None:
    with pytest.raises((gs.OnnxGraphSurgeonException, TypeError)):
        exporter().export_value_info_proto(v("x", dtype), True)


def test_kinds_of_values() -> None:
    sequence = gs.Variable("s", np.float32, (2,), type="sequence_type")
    assert exporter().export_value_info_proto(sequence, True) == helper.make_tensor_sequence_value_info("s", 1, (2,))
    sparse = gs.Variable("s", np.float32, (2,), type="sparse_tensor_type")
    assert exporter().export_value_info_proto(sparse, True).type.sparse_tensor_type.elem_type == 1


def test_a_constant_that_is_an_input_or_output_is_both() -> None:
    constant = gs.Constant("c", np.array([1, 2], np.float32))
    graph = gs.export_onnx(gs.Graph([], [constant], [constant], opset=18)).graph
    for value in (graph.input[0], graph.output[0]):
        assert value == helper.make_tensor_value_info("c", 1, (2,))
    assert [i.name for i in graph.initializer] == ["c"]
    assert exporter().export_value_info_proto(constant, True) == helper.make_tensor_value_info("c", 1, (2,))


# -- weights --------------------------------------------------------------------------------------


def test_weights_follow_the_order_of_the_tensors() -> None:
    x, h, y = v("x"), v("h"), v("y")
    weights = [gs.Constant(name, np.ones(2, np.float32)) for name in "zab"]
    nodes = [gs.Node("Add", inputs=[weights[0], x], outputs=[h]), gs.Node("Sum", inputs=[h, weights[2], weights[1], weights[0]], outputs=[y])]
    assert [i.name for i in gs.export_onnx(gs.Graph(nodes, [x], [y], opset=18)).graph.initializer] == ["z", "b", "a"]


def test_lazy_weights_are_written_as_they_were_stored_under_their_present_name() -> None:
    stored = helper.make_tensor("old", TensorProto.FLOAT, [2], [1.0, 2.0])
    constant = gs.Constant("old", gs.LazyValues(stored))
    constant.name = "new"
    proto = exporter().export_tensor_proto(constant)
    assert proto.name == "new"
    assert list(proto.float_data) == [1, 2]
    assert stored.name == "old"
    assert isinstance(constant._values, gs.LazyValues)


def test_loaded_weights_are_raw() -> None:
    proto = exporter().export_tensor_proto(gs.Constant("c", np.array([[1, 2]], np.int64)))
    assert proto == TensorProto(name="c", data_type=7, dims=[1, 2], raw_data=np.array([1, 2], "<i8").tobytes())
    assert module("exporters.onnx_exporter").constant_to_onnx_tensor(gs.Constant("c", np.array([[1, 2]], np.int64))) == proto


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_arrays_of_ml_dtypes_have_their_type(name: str) -> None:
    values = np.array([0.5, -1.5, 0], getattr(ml_dtypes, name))
    proto = exporter().export_tensor_proto(gs.Constant("c", values))
    assert proto.data_type == getattr(TensorProto, name.upper().replace("_", "") if "8" in name else "BFLOAT16")
    assert proto.raw_data == values.tobytes()
    found = module("importers.onnx_importer").OnnxImporter.import_tensor(proto).values
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()


def test_text_is_stored() -> None:
    y = v("y", object)
    graph = gs.Graph([gs.Node("Identity", inputs=[gs.Constant("c", np.array(["a", "é"], object))], outputs=[y])], [], [y], opset=18, ir_version=9)
    assert run(gs.export_onnx(graph), {})[0].tolist() == ["a", "é"]
    graph = gs.Graph([gs.Node("Identity", inputs=[gs.Constant("c", np.array(["abc", "d"]))], outputs=[y])], [], [y], opset=18, ir_version=9)
    assert run(gs.export_onnx(graph), {})[0].tolist() == ["abc", "d"]


def test_the_packing_of_float4() -> None:
    if not hasattr(TensorProto, "FLOAT4E2M1"):
        pytest.skip("this onnx lacks the type")
    values = np.array([0.5, 0, 1, 0], ml_dtypes.float4_e2m1fn)
    proto = exporter().export_tensor_proto(gs.Constant("c", values))
    assert (proto.data_type, proto.raw_data) == (23, b"\x01\x02")
    constant = module("importers.onnx_importer").OnnxImporter.import_tensor(proto)
    assert constant.dtype == 23
    assert constant.values.dtype == ml_dtypes.float4_e2m1fn
    assert constant.values.astype(np.float32).tolist() == [0.5, 0, 1, 0]


def test_a_type_that_the_installed_onnx_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking:
        def __getattr__(self, name: str) -> Any:
            if name == "INT4":
                raise AttributeError(name)
            return getattr(TensorProto, name)

    constant = gs.Constant("c", np.array([1], ml_dtypes.int4))
    monkeypatch.setattr(onnx, "TensorProto", Lacking())
    with pytest.raises(RuntimeError, match="INT4"):
        module("exporters.onnx_exporter").dtype_to_onnx(constant.dtype)
    for export in (exporter().export_tensor_proto, lambda tensor: gs.export_onnx(gs.Graph([], [], [tensor], opset=21))):
        with pytest.raises(RuntimeError, match=r"^Current ONNX package does not support INT4\. Please upgrade ONNX to the latest version\.$"):
            export(constant)


def test_export_needs_no_import_of_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    constant = gs.Constant("c", np.array([1, 2], ml_dtypes.bfloat16))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert exporter().export_tensor_proto(constant).data_type == 16
    assert exporter().export_tensor_proto(gs.Constant("f", np.ones(2, np.float32))).data_type == 1


def test_the_export_dtype_converts() -> None:
    constant = gs.Constant("c", np.array([1.5, -2.25], np.float32), export_dtype=TensorProto.BFLOAT16)
    proto = exporter().export_tensor_proto(constant)
    assert (proto.data_type, proto.raw_data) == (16, np.array([1.5, -2.25], ml_dtypes.bfloat16).tobytes())


def test_sparse_weights() -> None:
    y = v("y", shape=(2, 2))
    raw = helper.make_sparse_tensor(numpy_helper.from_array(np.array([1, 2], np.float16), "s"), numpy_helper.from_array(np.array([0, 3]), "i"), [2, 2])
    constant = gs.Constant("s", gs.SparseValues(raw))
    graph = gs.Graph([gs.Node("Identity", inputs=[constant], outputs=[y])], [], [y], opset=18, ir_version=9)
    constant.name = "renamed"
    proto = gs.export_onnx(graph)
    assert [s.values.name for s in proto.graph.sparse_initializer] == ["renamed"]
    assert raw.values.name == "s"
    assert exporter().export_sparse_tensor_proto(constant).dims == [2, 2]
    assert constant.values.tolist() == [[1, 0], [0, 2]]
    assert constant.values.dtype == np.float16


def test_new_values_of_a_weight_in_a_file_are_stored_inside() -> None:
    stored = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="w.bin")
    constant = module("importers.onnx_importer").OnnxImporter.import_tensor(stored)
    constant.values = np.array([3, 4], np.float32)
    proto = exporter().export_tensor_proto(constant)
    assert proto.data_location == TensorProto.DEFAULT
    assert not proto.external_data
    assert numpy_helper.to_array(proto).tolist() == [3, 4]


# -- nodes and attributes -------------------------------------------------------------------------


def test_nodes_and_the_order_of_attributes() -> None:
    node = gs.Node("Op", "n", {"z": 1, "a": 2.0}, [v("x"), gs.Variable.empty()], [v("y")], "d")
    proto = exporter().export_node(node)
    assert (proto.op_type, proto.name, proto.domain, list(proto.input), list(proto.output)) == ("Op", "n", "d", ["x", ""], ["y"])
    assert [a.name for a in proto.attribute] == ["z", "a"]
    assert not exporter().export_node(gs.Node("Op")).HasField("domain")
    assert [a.name for a in exporter().export_attributes({"z": 1, "a": 2})] == ["z", "a"]


def test_references_to_tensors_carry_one() -> None:
    (attribute,) = exporter().export_attributes({"value": gs.Node.AttributeRef("theirs", gs.Tensor)})
    assert (attribute.type, attribute.ref_attr_name) == (AttributeProto.TENSOR, "theirs")
    assert attribute.HasField("t")


@pytest.mark.parametrize(
    ("op", "name", "kind"),
    [("ReduceSum", "axes", "INTS"), ("TfIdfVectorizer", "weights", "FLOATS"), ("TfIdfVectorizer", "pool_strings", "STRINGS"), ("Unknown", "a", "INTS")],
)
def test_an_empty_list_has_the_type_of_the_schema(op: str, name: str, kind: str) -> None:
    graph = gs.Graph([gs.Node(op, attrs={name: []})], opset=11)
    assert gs.export_onnx(graph).graph.node[0].attribute[0].type == getattr(AttributeProto, kind)


def test_bytes_that_are_no_text_are_kept() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Custom (x) }")
    proto.graph.node[0].attribute.append(AttributeProto(name="s", type=AttributeProto.STRING, s=b"\xff\xfe"))
    proto.graph.node[0].attribute.append(AttributeProto(name="l", type=AttributeProto.STRINGS, strings=[b"\xff", b"ok"]))
    graph = gs.import_onnx(proto)
    assert (graph.nodes[0].attrs["s"], graph.nodes[0].attrs["l"]) == (b"\xff\xfe", [b"\xff", "ok"])
    assert gs.export_onnx(graph) == proto


def test_every_kind_of_attribute_comes_back() -> None:
    sparse = helper.make_sparse_tensor(helper.make_tensor("s", 1, [1], [1.0]), helper.make_tensor("i", 7, [1], [0]), [2])
    kind = helper.make_tensor_type_proto(1, ["n"])
    given = {"g": [onnx.GraphProto(name="a"), onnx.GraphProto(name="b")], "t": [helper.make_tensor("t", 1, [1], [1.0])], "s": sparse, "ss": [sparse], "k": kind}
    proto = model("g (float[2] x) => (float[2] y) { y = Custom (x) }")
    proto.graph.node[0].attribute.extend(helper.make_attribute(k, value) for k, value in given.items())
    graph = gs.import_onnx(proto)
    assert list(graph.nodes[0].attrs) == list(given)
    assert gs.export_onnx(graph) == proto
    assert gs.export_onnx(graph.copy()) == proto


def test_a_type_as_attribute_runs() -> None:
    proto = model("g () => (bool y) { o = Optional () y = OptionalHasElement (o) }")
    proto.graph.node[0].attribute.append(helper.make_attribute("type", helper.make_tensor_type_proto(1, [2])))
    graph = gs.import_onnx(proto)
    assert graph.nodes[0].attrs["type"].dtype == np.float32
    assert run(gs.export_onnx(graph), {})[0].tolist() is False


def test_dtypes_are_attribute_values() -> None:
    x, y = v("x"), v("y", np.float16)
    for to in (np.float16, np.dtype("f2"), TensorProto.FLOAT16):
        graph = gs.Graph([gs.Node("Cast", attrs={"to": to}, inputs=[x], outputs=[y])], [x], [y], opset=18, ir_version=9)
        assert run(gs.export_onnx(graph), {"x": np.array([1.5, 2], np.float32)})[0].dtype == np.float16


def test_names_that_nodes_share_are_told_only(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [gs.Node("A", "same"), gs.Node("B", "same"), gs.Node("C"), gs.Node("D")]
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        assert len(gs.export_onnx(gs.Graph(nodes, opset=18)).graph.node) == 4
    assert "'same'" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.ERROR, "onnx_gs"):
        module("exporters.onnx_exporter").check_duplicate_node_names(nodes, level=module("logger").G_LOGGER.ERROR)
        module("exporters.onnx_exporter").check_duplicate_node_names(nodes[1:])
    assert len(caplog.records) == 1


def test_kinds_of_values_survive() -> None:
    tensor = helper.make_tensor_type_proto(1, ["n", 2])
    kinds = {
        "optional": helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)),
        "nested": helper.make_sequence_type_proto(helper.make_sequence_type_proto(tensor)),
        "maps": helper.make_sequence_type_proto(helper.make_map_type_proto(7, tensor)),
        "map": helper.make_map_type_proto(8, tensor),
        "sequence": helper.make_sequence_type_proto(tensor),
        "opaque": onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n")) if hasattr(onnx.TypeProto, "Opaque") else tensor,
    }
    proto = model("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    proto.graph.input.extend(helper.make_value_info(name, kind) for name, kind in kinds.items())
    graph = gs.import_onnx(proto)
    assert gs.export_onnx(graph) == proto
    assert gs.export_onnx(graph.copy()) == proto
    assert [t.type for t in graph.inputs[1:4]] == ["optional_type", "sequence_type", "sequence_type"]
    assert graph.inputs[5].shape == ["n", 2]


def test_do_not_write_to_what_was_imported() -> None:
    proto = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    graph = gs.import_onnx(proto)
    before = gs.export_onnx(graph).SerializeToString()
    graph.copy().fold_constants().cleanup()
    x = np.array([1, 2], np.float32)
    assert_same(run(proto, {"x": x}), run(gs.export_onnx(graph), {"x": x}))
    assert gs.export_onnx(graph).SerializeToString() == before
    assert parse("g (float[2] x) => (float[2] y) { y = Neg (x) }").opset == 18
