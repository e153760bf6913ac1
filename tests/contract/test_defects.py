"""Section 17 of the contract: what the library that scripts were written for gets wrong, done right. Numbers are the contract's.

Those that have a test elsewhere (lists, copies, sorting, folding, patterns, element types) are not repeated here.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_gs as gs
from tests.support.rewrites import assert_same, model, parse, run


def v(name: str, dtype: Any = np.float32, shape: Any = (2,)) -> gs.Variable:
    return gs.Variable(name, dtype, shape)


def test_d08_a_default_stays_an_input_and_is_not_folded() -> None:
    proto = model("g (float[2] x) => (float[2] y) { z = Neg (w)\n y = Add (x, z) }")
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (2,)))
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, (2,), [1, 2]))
    graph = gs.import_onnx(proto).fold_constants().cleanup()
    again = gs.export_onnx(graph)
    assert [i.name for i in again.graph.input] == ["x", "w"]
    assert [n.op_type for n in again.graph.node] == ["Neg", "Add"]
    x = np.float32([1, 1])
    assert_same(run(proto, {"x": x}), run(again, {"x": x}))
    assert_same(run(proto, {"x": x, "w": x}), run(again, {"x": x, "w": x}))


def test_d15_the_source_is_not_changed() -> None:
    proto = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    before = proto.SerializeToString()
    graph = gs.import_onnx(proto)
    graph.tensors()["w"].name = "renamed"
    graph.nodes.append(gs.Node("Custom", inputs=[graph.outputs[0]], outputs=[v("c")], domain="custom"))
    assert [i.name for i in gs.export_onnx(graph).graph.initializer] == ["renamed"]
    assert proto.SerializeToString() == before


def test_d16_d17_d18_opsets() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }", opset=18)
    graph.nodes[0].domain = "ai.onnx"
    assert [(e.domain, e.version) for e in gs.export_onnx(graph).opset_import] == [("", 18)]
    graph.opset = 20
    assert [(e.domain, e.version) for e in gs.export_onnx(graph).opset_import] == [("", 20)]
    bare = onnx.ModelProto(ir_version=8)
    bare.graph.CopyFrom(gs.export_onnx(graph).graph)
    assert gs.import_onnx(bare).opset == 1


def test_d19_a_weight_read_in_branches_is_stored_once() -> None:
    graph = parse(
        """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
             y = If (c) <then_branch = t () => (float[2] a) { a = Add (x, w) }, else_branch = e () => (float[2] b) { b = Mul (x, w) }> }"""
    )
    found = gs.export_onnx(graph).SerializeToString().count(np.float32([1, 2]).tobytes())
    assert found == 1


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_d22_d23_small_types_are_packed(dtype: str) -> None:
    from onnx_gs.ir import dtypes

    kind = getattr(ml_dtypes, dtype)
    if not hasattr(TensorProto, dtypes.require(kind).name):
        pytest.skip("this onnx lacks the type")
    values = np.array([1, 0, 1], kind)
    y = v("y", kind, (3,))
    proto = gs.export_onnx(gs.Graph([gs.Node("Identity", inputs=[gs.Constant("c", values)], outputs=[y])], outputs=[y], opset=21))
    assert len(proto.graph.initializer[0].raw_data) == (3 * dtypes.require(kind).bits + 7) // 8
    found = gs.import_onnx(proto).nodes[0].inputs[0].values  # type: ignore[attr-defined]
    assert found.dtype == kind
    assert np.array_equal(found.astype(np.float32), values.astype(np.float32))


def test_d26_big_endian() -> None:
    y = v("y", shape=(3,))
    graph = gs.Graph([gs.Node("Abs", inputs=[gs.Constant("c", np.arange(3, dtype=">f4"))], outputs=[y])], outputs=[y], opset=13, ir_version=8)
    assert run(gs.export_onnx(graph), {})[0].tolist() == [0, 1, 2]


def test_d27_d28_export_dtype_and_copies() -> None:
    constant = gs.Constant("c", np.float32([1.5, -2]), export_dtype=ml_dtypes.bfloat16)
    constant = constant.copy()
    y = v("y", ml_dtypes.bfloat16)
    proto = gs.export_onnx(gs.Graph([gs.Node("Identity", inputs=[constant], outputs=[y])], outputs=[y], opset=13))
    assert proto.graph.initializer[0].data_type == TensorProto.BFLOAT16
    constant.export_dtype = None
    constant.values = np.int64([3])
    assert constant.export_dtype == np.int64


def test_d29_copies_of_a_lazy_constant_have_names_of_their_own() -> None:
    lazy = gs.LazyValues(onnx.numpy_helper.from_array(np.float32([1, 2]), "w"))
    first = gs.Constant("a", lazy)
    second = first.copy()
    second.name = "b"
    y = v("y")
    proto = gs.export_onnx(gs.Graph([gs.Node("Add", inputs=[first, second], outputs=[y])], outputs=[y], opset=13))
    assert sorted(i.name for i in proto.graph.initializer) == ["a", "b"]


def test_d30_a_constant_becomes_a_graph_input() -> None:
    graph = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    weight = graph.tensors()["w"].to_variable(shape=(2,))
    graph.inputs.append(weight)
    proto = gs.export_onnx(graph)
    assert [i.name for i in proto.graph.input] == ["x", "w"]
    assert not proto.graph.initializer
    onnx.checker.check_model(proto, full_check=True)


def test_d36_the_very_node_is_detached() -> None:
    x = v("x")
    first, second = gs.Node("Op", inputs=[x]), gs.Node("Op", inputs=[x])
    assert first == second
    second.inputs.clear()
    assert len(x.outputs) == 1
    assert x.outputs[0] is first


def test_d39_d40_comparing_with_anything() -> None:
    for thing in (gs.Variable("x"), gs.Constant("c", np.ones(2)), gs.Node("A"), gs.Graph(), gs.Function("F")):
        assert thing != None  # noqa: E711 - the comparison itself is tested
        assert thing != "x"
        assert thing != 3
    assert gs.Node("A", attrs={"a": np.ones(2)}) == gs.Node("A", attrs={"a": np.ones(2)})
    assert gs.Node("A", attrs={"a": np.ones(2)}) != gs.Node("A", attrs={"a": np.zeros(2)})


def test_d45_a_capture_of_what_is_listed_later() -> None:
    proto = model(
        """g (float[2] x, bool c) => (float[2] y) {
             y = If (c) <then_branch = t () => (float[2] a) { a = Neg (h) }, else_branch = e () => (float[2] b) { b = Abs (h) }>
             h = Relu (x) }"""
    )
    graph = gs.import_onnx(proto)
    assert [n.op for n in graph.cleanup().toposort().nodes] == ["Relu", "If"]
    assert run(gs.export_onnx(graph), {"x": np.float32([1, -1]), "c": np.array(True)})[0].tolist() == [-1, 0]


def test_d85_dynamic_is_an_unset_dim() -> None:
    x = v("x", shape=(gs.Tensor.DYNAMIC, 3))
    dims = gs.export_onnx(gs.Graph(inputs=[x], outputs=[x], opset=13)).graph.input[0].type.tensor_type.shape.dim
    assert [d.WhichOneof("value") for d in dims] == [None, "dim_value"]


def test_d86_a_shape_without_dtype_between_nodes() -> None:
    x, h, y = v("x"), gs.Variable("h", shape=(2,)), v("y")
    gs.export_onnx(gs.Graph([gs.Node("Neg", inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y], opset=13))


def test_an_output_of_unknown_element_type_is_written_without_a_type() -> None:
    x, y = v("x"), gs.Variable("y", shape=(2,))
    graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y], opset=13, ir_version=8)
    with pytest.raises(gs.OnnxGraphSurgeonException, match="'y'"):
        gs.export_onnx(graph)
    proto = gs.export_onnx(graph, do_type_check=False)
    assert not proto.graph.output[0].HasField("type")
    assert run(proto, {"x": np.float32([1, 2])})[0].tolist() == [-1, -2]


def test_d87_keywords_of_export_win() -> None:
    proto = gs.export_onnx(parse("g (float[2] x) => (float[2] y) { y = Relu (x) }"), ir_version=7, producer_name="me")
    assert (proto.ir_version, proto.producer_name) == (7, "me")


def test_d92_the_shape_is_a_tuple_before_and_after_loading() -> None:
    weight = gs.import_onnx(model("g () => (float[2] y) <float[2] w = {1, 2}> { y = Neg (w) }")).nodes[0].inputs[0]
    before = weight.shape
    weight.values  # type: ignore[attr-defined]
    assert before == weight.shape == (2,)


def test_d100_branches_do_not_declare_what_they_capture() -> None:
    proto = model(
        """g (float[2] x, bool c) => (float[2] y) <float[2] h> {
             h = Relu (x)
             y = If (c) <then_branch = t () => (float[2] a) { a = Neg (h) }, else_branch = e () => (float[2] b) { b = Abs (h) }> }"""
    )
    again = gs.export_onnx(gs.import_onnx(proto))
    assert all(not a.g.value_info for n in again.graph.node for a in n.attribute)


def test_d105_default_shapes_are_not_shared() -> None:
    first, second = gs.Constant("a", np.ones(2)).to_variable(), gs.Constant("b", np.ones(2)).to_variable()
    first.shape.append(3)
    assert second.shape == []


def test_threads_read_and_copy_one_graph() -> None:
    graph = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { z = Add (x, w)\n y = Concat <axis = 0> (z) }")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                assert graph.copy() == graph
                assert gs.export_onnx(graph.copy().fold_constants().cleanup()).graph.node[1].op_type == "Concat"
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("order", ["front", "back", "middle", "while"])
def test_d48_many_readers_of_one_tensor_go_in_linear_time(order: str) -> None:
    x = v("x")
    nodes = [gs.Node("Relu", inputs=[x]) for _ in range(20_000)]
    started = time.process_time()
    if order == "while":
        while x.outputs:
            x.outputs[0].inputs.clear()
    else:
        for node in {"front": nodes, "back": nodes[::-1], "middle": nodes[10_000:] + nodes[:10_000]}[order]:
            node.inputs.clear()
            assert len(x.outputs) < 20_000
    assert len(x.outputs) == 0
    assert time.process_time() - started < 5
