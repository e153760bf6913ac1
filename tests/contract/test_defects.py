"""What the library that scripts were written for gets wrong, done right.

Those that have a test elsewhere (lists, copies, sorting, folding, patterns, element types) are not repeated here.
"""

from __future__ import annotations

import copy
import itertools
import pickle
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


def test_a_default_stays_an_input_and_is_not_folded() -> None:
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


def test_the_source_is_not_changed() -> None:
    proto = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    before = proto.SerializeToString()
    graph = gs.import_onnx(proto)
    graph.tensors()["w"].name = "renamed"
    graph.nodes.append(gs.Node("Custom", inputs=[graph.outputs[0]], outputs=[v("c")], domain="custom"))
    assert [i.name for i in gs.export_onnx(graph).graph.initializer] == ["renamed"]
    assert proto.SerializeToString() == before


def test_opsets() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }", opset=18)
    graph.nodes[0].domain = "ai.onnx"
    assert [(e.domain, e.version) for e in gs.export_onnx(graph).opset_import] == [("", 18)]
    graph.opset = 20
    assert [(e.domain, e.version) for e in gs.export_onnx(graph).opset_import] == [("", 20)]
    bare = onnx.ModelProto(ir_version=8)
    bare.graph.CopyFrom(gs.export_onnx(graph).graph)
    assert gs.import_onnx(bare).opset == 1


def test_a_weight_read_in_branches_is_stored_once() -> None:
    graph = parse(
        """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
             y = If (c) <then_branch = t () => (float[2] a) { a = Add (x, w) }, else_branch = e () => (float[2] b) { b = Mul (x, w) }> }"""
    )
    found = gs.export_onnx(graph).SerializeToString().count(np.float32([1, 2]).tobytes())
    assert found == 1


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_small_types_are_packed(dtype: str) -> None:
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


def test_big_endian() -> None:
    y = v("y", shape=(3,))
    graph = gs.Graph([gs.Node("Abs", inputs=[gs.Constant("c", np.arange(3, dtype=">f4"))], outputs=[y])], outputs=[y], opset=13, ir_version=8)
    assert run(gs.export_onnx(graph), {})[0].tolist() == [0, 1, 2]


def test_export_dtype_and_copies() -> None:
    constant = gs.Constant("c", np.float32([1.5, -2]), export_dtype=ml_dtypes.bfloat16)
    constant = constant.copy()
    y = v("y", ml_dtypes.bfloat16)
    proto = gs.export_onnx(gs.Graph([gs.Node("Identity", inputs=[constant], outputs=[y])], outputs=[y], opset=13))
    assert proto.graph.initializer[0].data_type == TensorProto.BFLOAT16
    constant.export_dtype = None
    constant.values = np.int64([3])
    assert constant.export_dtype == np.int64


def test_copies_of_a_lazy_constant_have_names_of_their_own() -> None:
    lazy = gs.LazyValues(onnx.numpy_helper.from_array(np.float32([1, 2]), "w"))
    first = gs.Constant("a", lazy)
    second = first.copy()
    second.name = "b"
    y = v("y")
    proto = gs.export_onnx(gs.Graph([gs.Node("Add", inputs=[first, second], outputs=[y])], outputs=[y], opset=13))
    assert sorted(i.name for i in proto.graph.initializer) == ["a", "b"]


def test_a_constant_becomes_a_graph_input() -> None:
    graph = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    weight = graph.tensors()["w"].to_variable(shape=(2,))
    graph.inputs.append(weight)
    proto = gs.export_onnx(graph)
    assert [i.name for i in proto.graph.input] == ["x", "w"]
    assert not proto.graph.initializer
    onnx.checker.check_model(proto, full_check=True)


def test_copies_keep_the_kind_of_value_and_where_it_came_from() -> None:
    sequence = gs.Variable("s", np.float32, (2,), type="sequence_type")
    assert sequence.copy().type == "sequence_type"
    assert gs.Constant("c", np.ones(2), data_location=TensorProto.EXTERNAL).copy().data_location == TensorProto.EXTERNAL
    graph = gs.Graph(producer_name="p", producer_version="1").copy()
    assert (graph.producer_name, graph.producer_version) == ("p", "1")


def test_slices_of_linked_lists_can_be_assigned_and_deleted() -> None:
    tensors = [v(name) for name in "abcd"]
    node = gs.Node("Op", inputs=tensors[:3])
    node.inputs[1:] = [tensors[3]]
    assert [t.name for t in node.inputs] == ["a", "d"]
    del node.inputs[:1]
    assert [len(t.outputs) for t in tensors] == [0, 0, 0, 1]
    node.inputs[0:0] = [tensors[1], tensors[1]]
    assert [len(t.outputs) for t in tensors] == [0, 2, 0, 1]


def test_repeating_and_extending_link_every_item() -> None:
    tensors = [v(name) for name in "ab"]
    node = gs.Node("Op", inputs=tensors)
    node.inputs *= 3
    assert [len(t.outputs) for t in tensors] == [3, 3]
    node.inputs.extend(t for t in [v("c"), tensors[0]])
    assert [t.name for t in node.inputs] == ["a", "b"] * 3 + ["c", "a"]
    assert len(tensors[0].outputs) == 4
    assert node.inputs[6].outputs[0] is node


@pytest.mark.parametrize("make", [reversed, lambda items: (t for t in items), iter, lambda items: itertools.chain(items, ())])
def test_a_list_may_be_assigned_what_reads_it(make: Any) -> None:
    tensors = [v(name) for name in "ab"]
    node = gs.Node("Op", inputs=tensors)
    node.inputs = make(node.inputs)
    assert sorted(t.name for t in node.inputs) == ["a", "b"]
    assert [len(t.outputs) for t in tensors] == [1, 1]


def test_graphs_and_nodes_can_be_copied_deeply_and_pickled() -> None:
    graph = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { h = Add (x, w) y = Neg (h) }")
    x = np.float32([1, 2])
    for make in (copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))):
        new = make(graph)
        assert new == graph
        assert new.nodes[0] is not graph.nodes[0]
        assert new.nodes[1].inputs[0].inputs[0] is new.nodes[0]
        assert_same(run(gs.export_onnx(graph), {"x": x}), run(gs.export_onnx(new), {"x": x}))
        node = make(graph.nodes[0])
        assert node == graph.nodes[0]
        assert node.inputs[0] is not graph.inputs[0]
        assert list(node.inputs[0].outputs) == [node]
        tensor = make(graph.inputs[0])
        assert (tensor.name, tensor.dtype, tensor.shape, list(tensor.outputs)) == ("x", np.float32, [2], [])
    deep = copy.deepcopy(graph)
    deep.tensors()["w"].values[0] = 9  # type: ignore[attr-defined]
    assert graph.tensors()["w"].values[0] == 1  # type: ignore[attr-defined]


def test_the_very_node_is_detached() -> None:
    x = v("x")
    first, second = gs.Node("Op", inputs=[x]), gs.Node("Op", inputs=[x])
    assert first == second
    second.inputs.clear()
    assert len(x.outputs) == 1
    assert x.outputs[0] is first


def test_comparing_with_anything() -> None:
    for thing in (gs.Variable("x"), gs.Constant("c", np.ones(2)), gs.Node("A"), gs.Graph(), gs.Function("F")):
        assert thing != None  # noqa: E711 - the comparison itself is tested
        assert thing != "x"
        assert thing != 3
    assert gs.Node("A", attrs={"a": np.ones(2)}) == gs.Node("A", attrs={"a": np.ones(2)})
    assert gs.Node("A", attrs={"a": np.ones(2)}) != gs.Node("A", attrs={"a": np.zeros(2)})


def test_numpy_scalars_keep_their_type() -> None:
    graph = gs.Graph()
    graph.layer(op="Op", inputs=[np.float32(0.5), np.float16(2), np.int32(3), np.bool_(True)])
    assert [(t.dtype, t.shape, t.values.tolist()) for t in graph.nodes[0].inputs] == [  # type: ignore[attr-defined]
        (np.float32, (), 0.5), (np.float16, (), 2), (np.int32, (), 3), (np.bool_, (), True)
    ]  # fmt: skip


def test_lists_of_numbers_may_be_nested() -> None:
    graph = gs.Graph()
    graph.layer(op="Op", inputs=[[[1, 2], [3, 4]], [[1.5], [2]], ((1, 2, 3),), [[], []]])
    found = [(t.dtype, t.shape, t.values.tolist()) for t in graph.nodes[0].inputs]  # type: ignore[attr-defined]
    assert found == [(np.int64, (2, 2), [[1, 2], [3, 4]]), (np.float32, (2, 1), [[1.5], [2]]), (np.int64, (1, 3), [[1, 2, 3]]), (np.int64, (2, 0), [[], []])]
    for wrong in ([[1], [2, 3]], [1, [2]], [["a"]], [[None]], [[v("x")]]):
        with pytest.raises(gs.OnnxGraphSurgeonException):
            graph.layer(op="Op", inputs=[wrong])
    assert len(graph.nodes) == 1


def test_a_name_that_is_given_is_taken_also_an_empty_one() -> None:
    graph = gs.Graph()
    graph.layer(op="Op", name="", outputs=["y"])
    graph.layer(op="Op", name=None, outputs=["y"])
    graph.layer(op="Op", outputs=["y"])
    assert [node.name for node in graph.nodes] == ["", "", "onnx_graphsurgeon_node_3"]


def test_a_long_chain_in_reverse_order_is_sorted() -> None:
    tensors = [v(f"t{k}") for k in range(20_001)]
    nodes = [gs.Node("Relu", inputs=[tensors[k]], outputs=[tensors[k + 1]]) for k in range(20_000)]
    graph = gs.Graph(nodes[::-1], [tensors[0]], [tensors[-1]])
    started = time.process_time()
    graph.toposort()
    assert time.process_time() - started < 5
    assert all(a is b for a, b in zip(graph.nodes, nodes))


def test_a_capture_of_what_is_listed_later() -> None:
    proto = model(
        """g (float[2] x, bool c) => (float[2] y) {
             y = If (c) <then_branch = t () => (float[2] a) { a = Neg (h) }, else_branch = e () => (float[2] b) { b = Abs (h) }>
             h = Relu (x) }"""
    )
    graph = gs.import_onnx(proto)
    assert [n.op for n in graph.cleanup().toposort().nodes] == ["Relu", "If"]
    assert run(gs.export_onnx(graph), {"x": np.float32([1, -1]), "c": np.array(True)})[0].tolist() == [-1, 0]


def test_what_a_branch_returns_is_used() -> None:
    x, h, y, b = v("x"), v("h"), v("y"), gs.Variable("b", np.bool_, ())
    branches = {"then_branch": gs.Graph(outputs=[h]), "else_branch": gs.Graph(outputs=[h])}
    graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[h]), gs.Node("If", attrs=branches, inputs=[b], outputs=[y])], [x, b], [y], opset=18, ir_version=9)
    graph.cleanup(remove_unused_node_outputs=True).fold_constants().cleanup()
    assert [n.op for n in graph.nodes] == ["Neg", "If"]
    assert len(graph.nodes[0].outputs) == 1


def test_many_layers_are_added_in_linear_time() -> None:
    graph = gs.Graph(inputs=[v("x")])
    started = time.process_time()
    last: Any = graph.inputs
    for _ in range(10_000):
        last = graph.layer(op="Add", inputs=[last[0], 1.0], outputs=["y"])
    assert time.process_time() - started < 5
    names = [t.name for node in graph.nodes for t in node.outputs]
    assert len(set(names)) == len(names) == 10_000


def test_an_unused_first_output_leaves_the_others_where_they_are() -> None:
    proto = model(
        """g (float[3] x, int64[1] k) => (int64[1] i, float[1] y) <float[1] v, float[2] a, float[1] b, int64[2] s = {2, 1}> {
             v, i = TopK (x, k)
             a, b = Split (x, s)
             y = Neg (b) }"""
    )
    graph = gs.import_onnx(proto).cleanup(remove_unused_node_outputs=True)
    assert [[t.name for t in n.outputs][-1] for n in graph.nodes] == ["i", "b", "y"]
    assert [len(n.outputs) for n in graph.nodes] == [2, 2, 1]
    feeds = {"x": np.float32([1, 3, 2]), "k": np.int64([1])}
    assert_same(run(proto, feeds), run(gs.export_onnx(graph), feeds))


def test_dynamic_is_an_unset_dim() -> None:
    x = v("x", shape=(gs.Tensor.DYNAMIC, 3))
    dims = gs.export_onnx(gs.Graph(inputs=[x], outputs=[x], opset=13)).graph.input[0].type.tensor_type.shape.dim
    assert [d.WhichOneof("value") for d in dims] == [None, "dim_value"]


def test_a_shape_without_dtype_between_nodes() -> None:
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


def test_keywords_of_export_win() -> None:
    proto = gs.export_onnx(parse("g (float[2] x) => (float[2] y) { y = Relu (x) }"), ir_version=7, producer_name="me")
    assert (proto.ir_version, proto.producer_name) == (7, "me")


@pytest.mark.parametrize("what", ["import", "copy"])
def test_many_bodies_are_imported_and_copied_in_linear_time(what: str) -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["p"])], "b", [], [helper.make_tensor_value_info("p", 1, [2])])
    nodes = [helper.make_node("If", ["c"], [f"y{k}"], then_branch=branch, else_branch=branch) for k in range(1500)]
    proto = helper.make_model(helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2])], []), opset_imports=[helper.make_opsetid("", 18)])
    started = time.process_time()
    graph = gs.import_onnx(proto)
    if what == "copy":
        started = time.process_time()
        graph = graph.copy()
    assert time.process_time() - started < 5
    assert len(list(graph.subgraphs())) == 3000


def test_the_shape_is_a_tuple_before_and_after_loading() -> None:
    weight = gs.import_onnx(model("g () => (float[2] y) <float[2] w = {1, 2}> { y = Neg (w) }")).nodes[0].inputs[0]
    before = weight.shape
    weight.values  # type: ignore[attr-defined]
    assert before == weight.shape == (2,)


def test_branches_do_not_declare_what_they_capture() -> None:
    proto = model(
        """g (float[2] x, bool c) => (float[2] y) <float[2] h> {
             h = Relu (x)
             y = If (c) <then_branch = t () => (float[2] a) { a = Neg (h) }, else_branch = e () => (float[2] b) { b = Abs (h) }> }"""
    )
    again = gs.export_onnx(gs.import_onnx(proto))
    assert all(not a.g.value_info for n in again.graph.node for a in n.attribute)


def test_cleanup_leaves_the_inputs_of_loop_bodies() -> None:
    proto = model(
        """g (float[2] x, float[2] spare) => (float[2] y) <int64 n = {3}, bool go = {1}> {
             y = Loop (n, go, x) <body = b (int64 i, bool on, float[2] s) => (bool on2, float[2] s2) { on2 = Identity (go) s2 = Neg (s) }> }"""
    )
    graph = gs.import_onnx(proto).cleanup(remove_unused_graph_inputs=True)
    assert [t.name for t in graph.inputs] == ["x"]
    assert [t.name for t in next(graph.subgraphs()).inputs] == ["i", "on", "s"]
    x = np.float32([1, -2])
    assert_same(run(proto, {"x": x, "spare": x}), run(gs.export_onnx(graph), {"x": x}))


def test_asking_for_an_attribute_prints_nothing(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    assert not hasattr(gs.Graph(), "no_such_operator")
    assert getattr(gs.Graph(), "no_such_operator", 3) == 3
    assert (capsys.readouterr().out, caplog.text) == ("", "")
    with pytest.raises(AttributeError, match="no_such_operator"):
        gs.Graph().no_such_operator(1)


def test_the_table_of_an_opset_makes_itself() -> None:
    assert gs.Graph.OPSET_FUNC_MAP[12345] == {}
    del gs.Graph.OPSET_FUNC_MAP[12345]


def test_default_shapes_are_not_shared() -> None:
    first, second = gs.Constant("a", np.ones(2)).to_variable(), gs.Constant("b", np.ones(2)).to_variable()
    first.shape.append(3)
    assert second.shape == []


def test_distinct_tensors_of_one_name_are_one() -> None:
    x = v("x")
    nodes = [gs.Node("Neg", inputs=[x], outputs=[v("h")]), gs.Node("Abs", inputs=[v("h")], outputs=[v("y")])]
    graph = gs.Graph(nodes, [x], [v("y")], opset=18, ir_version=9).cleanup()
    assert [n.op for n in graph.nodes] == ["Neg", "Abs"]
    assert run(gs.export_onnx(graph), {"x": np.float32([1, -2])})[0].tolist() == [1, 2]


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
def test_many_readers_of_one_tensor_go_in_linear_time(order: str) -> None:
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
