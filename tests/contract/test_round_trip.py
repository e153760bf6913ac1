"""What scripts rely on: what an unedited round trip keeps, which is all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_gs as gs
from onnx_gs.ir import dtypes
from tests.support.rewrites import assert_same, model, run

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = """g (float[n, 2] x, bool b) => (float[n, 2] y) <float[2] w = {1, 2}, float[n, 2] h> {
    h = Add (x, w)
    y = If (b) <then_branch = t () => (float[n, 2] p) <float[2] k = {3, 4}> { p = Mul (h, k) }, else_branch = e () => (float[n, 2] q) { q = local.F (h) }> }"""
FUNCTION = '<domain: "local", opset_import: ["" : 17]> F <alpha: float = 1.5, beta> (x) => (y) { y = Neg (x) }'


def base() -> onnx.ModelProto:
    proto = model(TEXT, functions=FUNCTION, ir_version=10)
    proto.graph.node[0].name = "add"
    return proto


def set_model(proto: onnx.ModelProto) -> None:
    proto.producer_name, proto.producer_version, proto.domain, proto.model_version, proto.doc_string = "p", "1", "a.b", 7, "note"
    proto.metadata_props.add(key="k", value="v")
    proto.training_info.add().initialization.name = "training"


def set_opsets(proto: onnx.ModelProto) -> None:
    proto.opset_import.add(domain="unused", version=3)
    proto.opset_import.add(domain="ai.onnx.ml", version=2)


def set_graph(proto: onnx.ModelProto) -> None:
    proto.graph.doc_string = "note"
    proto.graph.quantization_annotation.add(tensor_name="h").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    if hasattr(proto.graph, "metadata_props"):
        proto.graph.metadata_props.add(key="k", value="v")


def set_nodes(proto: onnx.ModelProto) -> None:
    for node in (*proto.graph.node, *proto.functions[0].node, *proto.graph.node[1].attribute[0].g.node):
        node.doc_string = "note"
        if hasattr(node, "metadata_props"):
            node.metadata_props.add(key="k", value="v")
    proto.graph.node[1].attribute[0].doc_string = "attribute"
    if hasattr(proto.graph.node[0], "device_configurations"):
        proto.graph.node[0].device_configurations.add(configuration_id="c")
        proto.configuration.add(name="c", num_devices=2)


def set_values(proto: onnx.ModelProto) -> None:
    for value in (proto.graph.input[0], proto.graph.value_info[0], proto.graph.output[0]):
        value.doc_string = "note"
        value.type.denotation = "IMAGE"
        value.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        if hasattr(value, "metadata_props"):
            value.metadata_props.add(key="k", value="v")


def set_descriptions(proto: onnx.ModelProto) -> None:
    for name in ("w", "nobody"):
        proto.graph.value_info.append(helper.make_tensor_value_info(name, 1, [2]))
    proto.graph.value_info.append(helper.make_tensor_value_info("y", 1, None))
    proto.graph.value_info.reverse()


def set_weights(proto: onnx.ModelProto) -> None:
    typed = helper.make_tensor("typed", 1, [2], [1.0, 2.0])
    typed.doc_string = "note"
    if hasattr(typed, "metadata_props"):
        typed.metadata_props.add(key="k", value="v")
    segmented = numpy_helper.from_array(np.array([1, 2], np.float32), "segmented")
    segmented.segment.begin, segmented.segment.end = 0, 2
    proto.graph.initializer.extend([typed, segmented, numpy_helper.from_array(np.array([1, 2], np.float32), "unused")])
    proto.graph.node.add(op_type="Sum", input=["segmented", "typed"], output=["sum"])
    proto.graph.output.append(helper.make_tensor_value_info("sum", 1, [2]))


def set_external(proto: onnx.ModelProto) -> None:
    stored = proto.graph.initializer.add(name="file", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "8"), ("checksum", "abc")):
        stored.external_data.add(key=key, value=value)


def set_sparse(proto: onnx.ModelProto) -> None:
    for name, indices in (("flat", [0, 3]), ("pairs", [[0, 0], [1, 1]])):
        proto.graph.sparse_initializer.append(
            helper.make_sparse_tensor(helper.make_tensor(name, 1, [2], [1.0, 2.0]), numpy_helper.from_array(np.array(indices), f"{name}_i"), [2, 2])
        )


def set_defaults(proto: onnx.ModelProto) -> None:
    proto.graph.input.append(helper.make_tensor_value_info("w", 1, [2]))
    proto.graph.input.append(helper.make_tensor_value_info("nobody_reads_it", 1, ["", None, 0]))


def set_untyped(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].ClearField("type")
    value = proto.graph.input.add(name="shape_alone")
    value.type.tensor_type.shape.dim.add().dim_value = 3
    value.type.tensor_type.elem_type = 0


def set_function(proto: onnx.ModelProto) -> None:
    function = proto.functions[0]
    function.doc_string = "note"
    function.opset_import.add(domain="other", version=2)
    if hasattr(function, "overload"):
        function.overload = "o"
        function.value_info.append(helper.make_tensor_value_info("y", 1, None))
        function.metadata_props.add(key="k", value="v")


def set_names(proto: onnx.ModelProto) -> None:
    proto.graph.name = ""
    proto.graph.node[0].name = ""
    proto.graph.node.add(op_type="Clip", input=["x", "", ""], output=["clipped"])
    proto.graph.node.add(op_type="Dropout", input=["x"], output=["dropped", ""])


PARTS: dict[str, Callable[[onnx.ModelProto], None]] = {
    "d01 model": set_model, "opsets": set_opsets, "d02 d04 graph": set_graph, "d02 nodes": set_nodes, "d03 values": set_values,
    "descriptions": set_descriptions, "weights": set_weights, "external": set_external, "sparse": set_sparse, "d08 defaults": set_defaults,
    "untyped": set_untyped, "d11 function": set_function, "names": set_names, "nothing": lambda _: None,
}  # fmt: skip


@pytest.mark.parametrize("part", list(PARTS))
def test_an_unedited_model_comes_back_equal(part: str) -> None:
    proto = base()
    PARTS[part](proto)
    graph = gs.import_onnx(proto)
    assert gs.export_onnx(graph, do_type_check=False) == proto
    for each in (graph, *graph.subgraphs(recursive=True), *graph.functions):
        for tensor in each.tensors().values():
            _ = tensor.dtype, tensor.shape, tensor.doc_string
        for node in each.nodes:
            _ = node.attrs
    assert gs.export_onnx(graph, do_type_check=False) == proto
    assert gs.export_onnx(graph.copy(), do_type_check=False) == proto


def test_everything_at_once_comes_back_equal() -> None:
    proto = base()
    for change in PARTS.values():
        change(proto)
    assert gs.export_onnx(gs.import_onnx(proto), do_type_check=False) == proto


def test_training_information_survives_an_edit() -> None:
    proto = base()
    set_model(proto)
    graph = gs.import_onnx(proto)
    graph.nodes[0].name = "renamed"
    again = gs.export_onnx(graph)
    assert again.training_info == proto.training_info
    assert again.metadata_props == proto.metadata_props
    assert again.graph.node[0].name == "renamed"


def test_notes_of_what_stays_survive_an_edit() -> None:
    proto = base()
    for change in (set_nodes, set_values, set_graph):
        change(proto)
    graph = gs.import_onnx(proto)
    h = graph.nodes[0].outputs[0]
    h.name = "renamed"
    h.shape = ["n", 2]
    graph.nodes[0].attrs["new"] = 1
    again = gs.export_onnx(graph).graph
    assert again.node[0].doc_string == "note"
    assert (again.value_info[0].name, again.value_info[0].doc_string, again.value_info[0].type.denotation) == ("renamed", "note", "IMAGE")
    assert again.value_info[0].type.tensor_type.shape.dim[0].denotation == "DATA_BATCH"
    assert again.quantization_annotation[0].tensor_name == "renamed"


# -- element types --------------------------------------------------------------------------------

NAMES = [known.name for known in dtypes.ALL if hasattr(TensorProto, known.name)]
NUMBERS = {"BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"}


def values_of(name: str) -> Any:
    known = dtypes.BY_NAME[name]
    if name == "STRING":
        return np.array(["a", "", "é"], object)
    return np.array([0, 1, 2], np.float32).astype(known.numpy) if name not in {"INT2", "FLOAT8E8M0"} else np.array([1, 1, 1], np.float32).astype(known.numpy)


def storing(name: str) -> onnx.ModelProto:
    known = dtypes.BY_NAME[name]
    y = gs.Variable("y", known.numpy if name != "STRING" else object, (3,))
    weight = gs.Constant("w", values_of(name))
    return gs.export_onnx(gs.Graph([gs.Node("Identity", inputs=[weight], outputs=[y])], [], [y], opset=18, ir_version=9))


@pytest.mark.parametrize("name", NAMES)
def test_every_element_type_lazy_and_read(name: str) -> None:
    known = dtypes.BY_NAME[name]
    proto = storing(name)
    assert proto.graph.initializer[0].data_type == proto.graph.output[0].type.tensor_type.elem_type == known.number
    graph = gs.import_onnx(proto)
    weight = graph.nodes[0].inputs[0]
    assert isinstance(weight, gs.Constant)
    shown = known.number if name in NUMBERS else known.numpy
    assert graph.outputs[0].dtype == shown
    assert weight.dtype == shown
    assert gs.export_onnx(graph) == proto
    assert isinstance(weight._values, gs.LazyValues)
    read = weight.values
    assert read.dtype == known.numpy
    assert read.tolist() == values_of(name).tolist()
    assert gs.export_onnx(graph) == proto
    weight.values = read.copy()
    again = gs.export_onnx(graph).graph.initializer[0]
    assert again.data_type == known.number
    found = gs.import_onnx(gs.export_onnx(graph)).nodes[0].inputs[0]
    assert isinstance(found, gs.Constant)
    assert found.values.tolist() == read.tolist()


@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE", "FLOAT16", "INT8", "UINT8", "INT32", "INT64", "BOOL", "STRING"])
def test_onnxruntime_reads_what_is_written(name: str) -> None:
    graph = gs.import_onnx(storing(name))
    graph.nodes[0].inputs[0].values = values_of(name)  # type: ignore[attr-defined]
    found = run(gs.export_onnx(graph), {})[0]
    assert found.tolist() == values_of(name).tolist()


# -- what past releases of the library got wrong ---------------------------------------------------


def v(name: str, shape: Any = (2,)) -> gs.Variable:
    return gs.Variable(name, np.float32, shape)


def test_inputs_and_outputs_without_nodes_are_exported() -> None:
    proto = gs.export_onnx(gs.Graph([], [v("x"), v("unused")], [v("y")], opset=18))
    assert ([i.name for i in proto.graph.input], [o.name for o in proto.graph.output]) == (["x", "unused"], ["y"])


def test_listing_tensors_changes_nothing() -> None:
    graph = gs.import_onnx(base())
    proto = gs.export_onnx(graph)
    graph.tensors()["x"] = v("other")  # the dict is the caller's
    graph.tensors(check_duplicates=True).clear()
    assert gs.export_onnx(graph) == proto


def test_names_in_bodies_may_be_those_outside() -> None:
    text = """g (float[2] x, bool b) => (float[2] y) {
        y = If (b) <then_branch = t () => (float[2] p) { t0 = Neg (x) p = Exp (t0) }, else_branch = e () => (float[2] p) { t0 = Abs (x) p = Exp (t0) }> }"""
    proto = model(text)
    graph = gs.import_onnx(proto).cleanup().toposort()
    for b in (True, False):
        feeds = {"x": np.array([1, -2], np.float32), "b": np.array(b)}
        assert_same(run(proto, feeds), run(gs.export_onnx(graph), feeds))


def test_an_unknown_shape_is_no_scalar() -> None:
    x = v("x", None)
    y = gs.Variable("y", np.int64, None)
    graph = gs.Graph([gs.Node("Shape", inputs=[x], outputs=[y])], [x], [y], opset=18, ir_version=9).fold_constants()
    assert [n.op for n in graph.cleanup().nodes] == ["Shape"]
    assert run(gs.export_onnx(graph), {"x": np.zeros((3, 4), np.float32)})[0].tolist() == [3, 4]


def test_the_opset_reaches_bodies() -> None:
    body = next(gs.import_onnx(model(TEXT, functions=FUNCTION, opset=16)).subgraphs())
    assert body.opset == 16
    assert next(gs.import_onnx(model(TEXT, functions=FUNCTION, opset=16)).copy().subgraphs()).opset == 16


def test_domains_of_nodes_are_kept() -> None:
    graph = gs.import_onnx(base())
    call = graph.nodes[1].attrs["else_branch"].nodes[0]
    assert call.domain == "local"
    assert call.copy().domain == "local"
    again = gs.export_onnx(graph.copy()).graph.node[1].attribute[1].g.node[0]
    assert again.domain == "local"


def test_sorting_diamonds_over_diamonds_takes_no_time() -> None:
    a = v("a")
    nodes, tensor = [], a
    for k in range(200):
        left, right, joined = v(f"l{k}"), v(f"r{k}"), v(f"j{k}")
        nodes += [gs.Node("Neg", inputs=[tensor], outputs=[left]), gs.Node("Abs", inputs=[tensor], outputs=[right])]
        nodes.append(gs.Node("Add", inputs=[left, right], outputs=[joined]))
        tensor = joined
    graph = gs.Graph(nodes[::-1], [a], [tensor]).toposort()
    assert graph.nodes[0].inputs[0] is a
    assert graph.nodes[-1].outputs[0] is tensor
