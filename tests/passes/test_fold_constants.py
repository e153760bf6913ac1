"""Folding: what folds, what never does, and that nothing else changes."""

from __future__ import annotations

import logging

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.evaluate.verify import verify
from onnx_gs.ir import verify as soundness
from onnx_gs.passes.fold_constants import FoldConstants, fold_constants
from tests.support.rewrites import parse


def constant(name, values, dtype=np.float32):
    return gs.Constant(name, np.array(values, dtype))


def graph_of(nodes, inputs, outputs, **options):
    return gs.Graph(nodes, inputs, outputs, opset=options.pop("opset", 18), **options)


def ops(graph):
    return [node.op for node in graph.nodes]


def folded(graph, **options):
    """Fold and clean a copy, and check that it computes the same."""
    graph.infer_shapes()
    after = graph.copy().fold_constants(**options)
    assert not soundness.problems(after)
    after.cleanup()
    assert not soundness.problems(after)
    found = verify(graph, after)
    assert found.same, str(found)
    onnx.checker.check_model(gs.export_onnx(after))
    return after


# -- the contract ---------------------------------------------------------------------------------


def test_folded_tensors_become_weights_in_place_and_dead_nodes_stay():
    x, h, y = gs.Variable("x", np.float32, (2,)), gs.Variable("h"), gs.Variable("y", np.float32, (2,))
    add = gs.Node("Add", inputs=[constant("a", [1, 2]), constant("b", [3, 4])], outputs=[h])
    graph = graph_of([add, gs.Node("Mul", inputs=[x, h], outputs=[y])], [x], [y])
    assert graph.fold_constants() is graph
    assert isinstance(h, gs.Constant)
    assert h.values.tolist() == [4, 6]
    assert h.name == "h"
    assert h.inputs == []
    assert graph.nodes[0] is add
    assert add.outputs == []
    assert ops(graph.cleanup()) == ["Mul"]


def test_omitted_inputs_do_not_block():
    x, h, y = gs.Variable("x", np.float32, (1,)), gs.Variable("h"), gs.Variable("y", np.float32)
    clip = gs.Node("Clip", inputs=[constant("a", [-1.0]), gs.Variable.empty(), constant("top", 3.0)], outputs=[h])
    after = folded(graph_of([clip, gs.Node("Add", inputs=[x, h], outputs=[y])], [x], [y]))
    assert ops(after) == ["Add"]


def test_omitted_outputs_do_not_block():
    data = constant("a", [[1, 2], [3, 4]])
    y = gs.Variable("y", np.int64)
    top = gs.Node("TopK", attrs={"axis": 1}, inputs=[data, constant("k", [1], np.int64)], outputs=[gs.Variable.empty(), y])
    after = graph_of([top], [], [y]).fold_constants().cleanup()
    assert ops(after) == []


def test_constants_that_are_inputs_fold():
    a, y = constant("a", [1, 2]), gs.Variable("y", np.float32)
    graph = graph_of([gs.Node("Exp", inputs=[a], outputs=[y])], [a], [y])
    assert isinstance(graph.fold_constants().outputs[0], gs.Constant)


def test_inputs_that_nodes_feed_stay_inputs():
    h, k, y = gs.Variable("h", np.float32, (2,)), gs.Variable("k", np.float32, ()), gs.Variable("y", np.float32, (2,))
    nodes = [
        gs.Node("Neg", inputs=[constant("a", [1, 2])], outputs=[h]), gs.Node("Constant", attrs={"value_float": 1.0}, outputs=[k]),
        gs.Node("Mul", inputs=[h, k], outputs=[y]),
    ]  # fmt: skip
    graph = graph_of(nodes, [h, k], [y]).fold_constants().cleanup()
    assert [type(t) for t in graph.inputs] == [gs.Variable, gs.Variable]
    assert ops(graph) == ["Mul"]


def test_lazy_constants_that_nothing_folds_stay_unread():
    x = oh.make_tensor_value_info("x", 1, [3])
    weights = [onnx.numpy_helper.from_array(np.ones(3, np.float32), f"w{k}") for k in range(3)]
    nodes = [oh.make_node("Add", ["x", "w0"], ["h"]), oh.make_node("Mul", ["h", "w1"], ["i"]), oh.make_node("Sub", ["i", "w2"], ["y"])]
    model = oh.make_model(oh.make_graph(nodes, "g", [x], [oh.make_tensor_value_info("y", 1, [3])], weights), opset_imports=[oh.make_opsetid("", 18)])
    graph = gs.import_onnx(model).fold_constants()
    assert sum(isinstance(t._values, gs.LazyValues) for t in graph.tensors().values() if isinstance(t, gs.Constant)) == 3


@pytest.mark.parametrize("mode", [None, "basic", "recursive"])
def test_one_node_that_fails_stops_no_other(mode, caplog):
    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32)
    bad, good, after_bad = gs.Variable("bad"), gs.Variable("good"), gs.Variable("after_bad")
    nodes = [
        gs.Node("Exp", inputs=[constant("a", [1, 2])], outputs=[good]),
        gs.Node("MatMul", name="mm", inputs=[constant("p", [[1, 2]]), constant("q", [[1, 2]])], outputs=[bad]),
        gs.Node("Exp", inputs=[bad], outputs=[after_bad]),
        gs.Node("Log", inputs=[constant("r", [1, 2])], outputs=[gs.Variable("more")]),
        gs.Node("Sum", inputs=[x, good, after_bad], outputs=[y]),
    ]
    graph = graph_of(nodes, [x], [y])
    with caplog.at_level(logging.WARNING):
        graph.fold_constants(partitioning=mode)
    assert isinstance(good, gs.Constant)
    assert not isinstance(bad, gs.Constant)
    assert not isinstance(after_bad, gs.Constant)
    assert "mm" in caplog.text
    with pytest.raises(gs.EvaluationError, match=r"MatMul|mm"):
        graph.copy().fold_constants(error_ok=False)


def test_unknown_partitioning_is_refused():
    with pytest.raises(gs.GraphValueError, match="partitioning"):
        gs.Graph().fold_constants(partitioning="some")


@pytest.mark.parametrize(("threshold", "wide_stays", "small_stays"), [(None, False, False), (40, True, False), (4, True, False), (2, True, True), (400, False, False)])
def test_size_threshold_stores_small_results_of_large_ones(threshold, wide_stays, small_stays):
    wide, small, y = gs.Variable("wide"), gs.Variable("small"), gs.Variable("y", np.float32)
    x = gs.Variable("x", np.float32, (1,))
    nodes = [
        gs.Node("Tile", inputs=[constant("a", [1.0]), constant("times", [100], np.int64)], outputs=[wide]),
        gs.Node("ReduceSum", attrs={"keepdims": 0}, inputs=[wide], outputs=[small]),
        gs.Node("Add", inputs=[x, small], outputs=[y]),
    ]
    graph_of(nodes, [x], [y]).fold_constants(size_threshold=threshold)
    assert isinstance(wide, gs.Variable) == wide_stays
    assert isinstance(small, gs.Variable) == small_stays
    if not small_stays:
        assert small.values.item() == 100


def test_size_threshold_with_known_shapes_computes_nothing_that_is_not_needed():
    wide, y = gs.Variable("wide", np.float32, (1 << 40,)), gs.Variable("y", np.float32)
    x = gs.Variable("x", np.float32, (1,))
    tile = gs.Node("Tile", inputs=[constant("a", [1.0]), constant("times", [1 << 40], np.int64)], outputs=[wide])
    graph = graph_of([tile, gs.Node("Add", inputs=[x, wide], outputs=[y])], [x], [y])
    report = FoldConstants(size_threshold=1 << 20)(graph)
    assert ops(graph) == ["Tile", "Add"]
    assert "over the limit" in report.declined[0].reason


def test_results_too_large_for_memory_are_declined():
    wide = gs.Variable("y", np.float32)
    tile = gs.Node("Tile", inputs=[constant("a", [1.0]), constant("times", [1 << 40], np.int64)], outputs=[wide])
    report = FoldConstants()(graph_of([tile], [], [wide]))
    assert "bytes" in report.declined[0].reason


def test_growth_limit_lists_what_it_skipped():
    x, y = gs.Variable("x", np.float32, (1,)), gs.Variable("y", np.float32)
    grown = gs.Variable("grown")
    nodes = [
        gs.Node("ConstantOfShape", name="grow", inputs=[constant("shape", [1000], np.int64)], outputs=[grown]),
        gs.Node("Add", inputs=[x, grown], outputs=[y]),
    ]
    graph = graph_of(nodes, [x], [y])
    report = FoldConstants(max_growth=100)(graph)
    assert ops(graph.cleanup()) == ["ConstantOfShape", "Add"]
    assert [(e.node, "add 3992 bytes" in e.reason) for e in report.declined] == [("grow", True)]
    assert any(e.node == "grow" for e in FoldConstants(max_growth=4000)(graph).rewritten)
    assert ops(graph.cleanup()) == ["Add"]


def test_growth_limit_stores_what_the_skipped_nodes_need():
    x, y = gs.Variable("x", np.float32, (1,)), gs.Variable("y", np.float32)
    shape, grown = gs.Variable("shape"), gs.Variable("grown")
    nodes = [
        gs.Node("Mul", inputs=[constant("a", [100], np.int64), constant("b", [10], np.int64)], outputs=[shape]),
        gs.Node("ConstantOfShape", inputs=[shape], outputs=[grown]),
        gs.Node("Add", inputs=[x, grown], outputs=[y]),
    ]
    graph = graph_of(nodes, [x], [y])
    FoldConstants(max_growth=100)(graph)
    assert ops(graph.cleanup()) == ["ConstantOfShape", "Add"]
    assert shape.values.tolist() == [1000]


def test_exclusion_reaches_every_depth():
    text = """g (bool c) => (float[2] y) <float[2] a = {1, 2}> {
        y = If (c) <then_branch = t () => (float[2] p) { p = Neg (a) }, else_branch = e () => (float[2] q) { q = Abs (a) }> }"""
    graph = parse(text)
    asked = []

    def exclude(node):
        asked.append(node.op)
        return node.op == "Neg"

    graph.fold_constants(should_exclude_node=exclude)
    assert set(asked) == {"Neg", "Abs"}
    then, otherwise = graph.nodes[0].attrs["then_branch"], graph.nodes[0].attrs["else_branch"]
    assert isinstance(then.outputs[0], gs.Variable)
    assert isinstance(otherwise.outputs[0], gs.Constant)
    assert parse(text).fold_constants(recurse_subgraphs=False).nodes[0].attrs["else_branch"].nodes[0].outputs != []


def test_an_excluded_if_is_not_flattened():
    graph = parse("""g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () => (float[2] q) { q = Abs (x) }> }""")
    assert ops(graph.copy().fold_constants(should_exclude_node=lambda n: n.op == "If")) == ["If"]
    assert ops(graph.copy().fold_constants(flatten_subgraphs=False)) == ["If"]
    assert ops(folded(graph)) == ["Neg"]


# -- what never folds -----------------------------------------------------------------------------

ONE = "<float[2] a = {1, 2}>"


@pytest.mark.parametrize("body", [
    "r = RandomNormal <shape = [2]> ()", "r = RandomUniform <shape = [2], seed = 3.0> ()", "r = RandomNormalLike (a)", "r = RandomUniformLike (a)",
    "r = Bernoulli (h)",
])  # fmt: skip
def test_random_nodes_stay(body):
    graph = parse(f"g () => (float[2] y) <float[2] a = {{1, 2}}, float[2] h = {{0.5, 0.5}}> {{ {body} y = Identity (r) }}")
    assert ops(graph.fold_constants().cleanup())[0].startswith(("Random", "Bernoulli"))


def test_dropout_folds_outside_training_only():
    text = "g () => (float[2] y) <float[2] a = {{1, 2}}, float ratio = {{0.5}}, bool mode = {{{}}}> {{ y = Dropout (a, ratio, mode) }}"
    assert ops(parse(text.format(1)).fold_constants().cleanup()) == ["Dropout"]
    assert ops(folded(parse(text.format(0)))) == []


def test_random_nodes_hidden_in_functions_and_branches_stay():
    functions = '<domain: "local", opset_import: ["" : 18]> Noise (a) => (y) { r = RandomNormalLike (a) y = Add (a, r) }'
    graph = parse(f"g () => (float[2] y) {ONE} {{ y = local.Noise (a) }}", functions=functions)
    assert ops(graph.fold_constants().cleanup()) == ["Noise"]
    graph = parse("g () => (float[2] y) <float[2] a = {1, 2}, int64 n = {2}, bool c = {1}> { y = Loop (n, c, a) <body = b (int64 i, bool d, float[2] v) => "
                  "(bool d2, float[2] w) { d2 = Identity (d) r = RandomNormalLike (v) w = Add (v, r) }> }")  # fmt: skip
    assert ops(graph.fold_constants().cleanup()) == ["Loop"]


@pytest.mark.parametrize("before", [False, True])
def test_quantization_stays_visible(before):
    text = "s = Neg (a)" if before else "s = Identity (a)"
    graph = parse(f"g () => (float[2] y) <float[2] a = {{-1, -2}}, float scale = {{0.1}}, uint8 zero = {{0}}> {{ {text} q = QuantizeLinear (s, scale, zero) "
                  "y = DequantizeLinear (q, scale, zero) }")  # fmt: skip
    assert ops(graph.fold_constants().cleanup()) == ["QuantizeLinear", "DequantizeLinear"]
    graph = parse(f"g () => (uint8[2] q, float s, uint8 z) {ONE} {{ q, s, z = DynamicQuantizeLinear (a) }}")
    assert ops(graph.fold_constants().cleanup()) == ["DynamicQuantizeLinear"]


def test_other_domains_are_not_mistaken_for_onnx():
    y, z = gs.Variable("y", np.int64), gs.Variable("z", np.int64)
    x = gs.Variable("x", np.float32, (2, 3))
    nodes = [gs.Node("Shape", inputs=[x], outputs=[y], domain="mine"), gs.Node("Constant", attrs={"value_int": 3}, outputs=[z], domain="mine")]
    assert ops(graph_of(nodes, [x], [y, z]).fold_constants().cleanup()) == ["Shape", "Constant"]


def test_overridable_defaults_stay():
    initializer = onnx.numpy_helper.from_array(np.ones(2, np.float32), "d")
    info = oh.make_tensor_value_info("d", 1, [2])
    graph_proto = oh.make_graph([oh.make_node("Neg", ["d"], ["y"])], "g", [info], [oh.make_tensor_value_info("y", 1, [2])], [initializer])
    graph = gs.import_onnx(oh.make_model(graph_proto, ir_version=8, opset_imports=[oh.make_opsetid("", 18)]))
    assert ops(graph.fold_constants().cleanup()) == ["Neg"]


def test_attribute_references_stay():
    functions = '<domain: "local", opset_import: ["" : 18]> F <slope> (x) => (y) { a = Constant <value_float: float = @slope> () b = Constant <value_float = 2.0> () c = Neg (b) d = Mul (c, a) y = Mul (x, d) }'
    graph = parse("g (float[2] x) => (float[2] y) { y = local.F <slope = 3.0> (x) }", functions=functions)
    after = folded(graph)
    assert [n.op for n in after.functions[0].nodes] == ["Constant", "Mul", "Mul"]


# -- calls and loops over constants ---------------------------------------------------------------


def test_calls_with_constant_inputs_are_computed():
    functions = """<domain: "local", opset_import: ["" : 18, "local" : 1]> Twice (a) => (y) { y = Add (a, a) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]> Four <n: int = 2> (a) => (y) {
            b = local.Twice (a) c = Constant <value_float = 1.0> () d = local.Twice (b) y = Mul (d, c) }"""
    graph = parse(f"g (float[2] x) => (float[2] y) {ONE} {{ f = local.Four (a) y = Add (x, f) }}", functions=functions)
    after = folded(graph)
    assert ops(after) == ["Add"]
    assert after.tensors()["f"].values.tolist() == [4, 8]


def test_loops_over_constants_are_computed_even_when_the_body_ignores_the_counter():
    graph = parse("""g () => (float[2] y) <float[2] a = {1, 2}, int64 n = {3}, bool c = {1}> {
        y = Loop (n, c, a) <body = b (int64 i, bool d, float[2] v) => (bool d2, float[2] w) { d2 = Identity (d) w = Add (v, v) }> }""")
    after = folded(graph)
    assert ops(after) == []
    assert after.outputs[0].values.tolist() == [8, 16]


def test_an_if_that_captures_a_variable_is_no_constant():
    graph = parse("""g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () => (float[2] q) { q = Abs (x) }> }""")
    assert ops(graph.fold_constants(flatten_subgraphs=False)) == ["If"]


def test_a_loop_that_never_ends_is_given_up(monkeypatch):
    from onnx_gs.evaluate import partition

    monkeypatch.setattr(partition, "LOOP_LIMIT_S", 0.5)
    graph = parse("""g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, bool c = {1}, int64 n = {1}> {
        v2 = Loop (n, c, a) <body = b (int64 i, bool d, float[2] v) => (bool d2, float[2] w) { d2 = Identity (d) w = Neg (v) }>
        z = Exp (a)
        y = Sum (x, v2, z) }""")
    graph.nodes[0].inputs[0] = gs.Variable.empty()
    graph.fold_constants().cleanup()
    assert ops(graph) == ["Loop", "Sum"]


def test_sequences_in_between_are_computed_through():
    graph = parse("""g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, int64 zero = {0}> {
        s = SequenceConstruct (a, a) n = SequenceLength (s) e = SequenceAt (s, zero) f = Cast <to = 1> (n) g2 = Mul (e, f) y = Add (x, g2) }""")
    after = folded(graph)
    assert ops(after) == ["Add"]
    assert after.tensors()["g2"].values.tolist() == [2, 4]


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("node", "expected"), [
    ("y = Shape (x)", None), ("y = Shape <start = 1> (x)", [3, 4]), ("y = Shape <start = -2, end = -1> (x)", [3]), ("y = Shape <start = 2, end = 1> (x)", []),
    ("s = Shape (x) y = Gather (s, one)", [3]), ("s = Shape (x) y = Gather (s, none)", None), ("s = Shape (x) y = Gather (s, grid)", [[3], [4]]),
    ("s = Shape (x) y = Slice (s, one, far)", [3, 4]), ("s = Shape (x) y = Slice (s, last, far, zero)", [4]),
    ("s = Shape (x) y = Slice (s, last, none, last, last)", [4, 3]), ("s = Shape (x) y = Slice (s, none, far)", None),
])  # fmt: skip
def test_shapes_fold_where_the_picked_dims_are_static(node, expected):
    graph = parse(f"""g (float[n, 3, 4] x) => (int64[m] y) <int64[1] one = {{1}}, int64[1] none = {{0}}, int64[2,1] grid = {{1, 2}}, int64[1] far = {{100}},
        int64[1] last = {{-1}}, int64[1] zero = {{0}}> {{ {node} }}""")
    graph.outputs[0].shape = None
    after = graph.copy().fold_constants().cleanup()
    if expected is None:
        assert after.nodes
    else:
        assert not after.nodes
        assert after.outputs[0].values.tolist() == expected
    found = verify(graph, after)
    assert found.same, str(found)


@pytest.mark.parametrize("dims", [("n", 3), ("", 3), (-1, 3), (None, 3)])
def test_unknown_dims_do_not_fold(dims):
    x, y = gs.Variable("x", np.float32, dims), gs.Variable("y", np.int64)
    assert ops(graph_of([gs.Node("Shape", inputs=[x], outputs=[y])], [x], [y]).fold_constants().cleanup()) == ["Shape"]


def test_numpy_dims_and_scalars_are_static():
    for dims, expected in (((np.int64(2), np.int32(3)), [2, 3]), ((), [])):
        x, y = gs.Variable("x", np.float32, dims), gs.Variable("y", np.int64)
        graph = graph_of([gs.Node("Shape", inputs=[x], outputs=[y])], [x], [y]).fold_constants()
        assert graph.outputs[0].values.tolist() == expected
        assert graph.outputs[0].dtype == np.int64


def test_shape_of_a_weight_does_not_read_it(tmp_path):
    model = oh.make_model(
        oh.make_graph([oh.make_node("Shape", ["w"], ["y"]), oh.make_node("Exp", ["v"], ["z"])], "g", [],
                      [oh.make_tensor_value_info("y", 7, [1]), oh.make_tensor_value_info("z", 1, [2])],
                      [onnx.numpy_helper.from_array(np.ones(2, np.float32), "v")]), opset_imports=[oh.make_opsetid("", 18)],
    )  # fmt: skip
    missing = model.graph.initializer.add(name="w", data_type=1, dims=[5], data_location=1)
    missing.external_data.add(key="location", value="gone.bin")
    graph = gs.import_onnx(model).fold_constants()
    assert graph.tensors()["y"].values.tolist() == [5]
    assert isinstance(graph.tensors()["z"], gs.Constant)


def test_a_weight_that_cannot_be_read_stops_nothing_else():
    model = oh.make_model(
        oh.make_graph([oh.make_node("Neg", ["w"], ["y"]), oh.make_node("Exp", ["v"], ["z"])], "g", [],
                      [oh.make_tensor_value_info("y", 1, [5]), oh.make_tensor_value_info("z", 1, [2])],
                      [onnx.numpy_helper.from_array(np.ones(2, np.float32), "v")]), opset_imports=[oh.make_opsetid("", 18)],
    )  # fmt: skip
    missing = model.graph.initializer.add(name="w", data_type=1, dims=[5], data_location=1)
    missing.external_data.add(key="location", value="gone.bin")
    graph = gs.import_onnx(model).fold_constants()
    assert isinstance(graph.tensors()["z"], gs.Constant)
    assert not isinstance(graph.tensors()["y"], gs.Constant)


# -- values ---------------------------------------------------------------------------------------


def test_strings_fold_and_export():
    graph = parse("""g () => (string[2] y) { a = Constant <value_strings = ["p", "q"]> () y = Identity (a) }""")
    after = folded(graph)
    assert after.outputs[0].values.tolist() == ["p", "q"]


def test_bfloat16_results_fold():
    a, y = gs.Constant("a", np.array([1, 2], ml_dtypes.bfloat16)), gs.Variable("y", np.float32)
    graph = graph_of([gs.Node("Cast", attrs={"to": 16}, inputs=[constant("f", [1.5, 2.5])], outputs=[h := gs.Variable("h", 16)]),
                      gs.Node("Concat", attrs={"axis": 0}, inputs=[h, a], outputs=[c := gs.Variable("c", 16)]),
                      gs.Node("Cast", attrs={"to": 1}, inputs=[c], outputs=[y])], [], [y])  # fmt: skip
    graph.fold_constants()
    assert c.dtype == ml_dtypes.bfloat16
    assert y.values.tolist() == [1.5, 2.5, 1, 2]


def test_folding_does_not_depend_on_names():
    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32)
    h, i = gs.Variable("h"), gs.Variable("i")
    nodes = [
        gs.Node("Neg", name="n", inputs=[constant("a", [1, 2])], outputs=[h]), gs.Node("Exp", name="a", inputs=[h], outputs=[i]),
        gs.Node("Add", name="h", inputs=[x, i], outputs=[y]),
    ]  # fmt: skip
    graph_of(nodes, [x], [y]).fold_constants()
    assert isinstance(h, gs.Constant)
    assert isinstance(i, gs.Constant)


def test_export_dtype_is_what_readers_see():
    a = gs.Constant("a", np.array([1.7, 2.2], np.float32), export_dtype=np.int64)
    y = gs.Variable("y", np.int64)
    graph = graph_of([gs.Node("Add", inputs=[a, constant("b", [1, 1], np.int64)], outputs=[y])], [], [y]).fold_constants()
    assert graph.outputs[0].values.tolist() == [2, 3]


def test_integer_division_by_zero_is_left_alone():
    graph = parse("""g (int64[2] x) => (int64[2] y, float[2] z) <int64[2] a = {1, 2}, int64[2] b = {0, 2}, float[2] f = {1, 2}> {
        d = Div (a, b) m = Mod (a, b) t = Add (d, m) y = Add (x, t) z = Exp (f) }""")
    graph.fold_constants().cleanup()
    assert "Div" in ops(graph)
    assert "Mod" in ops(graph)
    assert isinstance(graph.outputs[1], gs.Constant)


def test_folding_twice_changes_nothing_more():
    graph = parse("""g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, bool c = {1}, bool d = {0}> {
        e = If (c) <then_branch = t () => (bool p) { p = Not (d) }, else_branch = f () => (bool q) { q = Identity (d) }>
        y = If (e) <then_branch = t2 () => (float[2] p2) { n = Exp (a) p2 = Add (x, n) }, else_branch = f2 () => (float[2] q2) { q2 = Abs (x) }> }""")
    after = folded(graph)
    assert ops(after) == ["Add"]
    assert FoldConstants()(after).rewritten == []


def test_rounded_float16_pieces_of_a_chain_stay():
    x, y = gs.Variable("x", np.float16, (2,)), gs.Variable("y", np.float16, (2,))
    third, h = gs.Constant("t", np.array([3.0], np.float16)), gs.Variable("h", np.float16)
    graph = graph_of([gs.Node("Reciprocal", inputs=[third], outputs=[h]), gs.Node("Mul", inputs=[x, h], outputs=[y])], [x], [y])
    after = folded(graph)
    assert ops(after) == ["Reciprocal", "Mul"]
    two = gs.Constant("t", np.array([2.0], np.float16))
    graph = graph_of([gs.Node("Mul", inputs=[two, two], outputs=[h := gs.Variable("h", np.float16)]), gs.Node("Mul", inputs=[x, h], outputs=[y])], [x], [y])
    assert ops(folded(graph)) == ["Mul"]


def test_casts_to_float16_that_round_stay_whoever_computes_what_they_cast():
    for op in ("Sqrt", "Neg"):  # by a session, by a kernel
        x, y, h, c = gs.Variable("x", np.float16, (2,)), gs.Variable("y", np.float16, (2,)), gs.Variable("h"), gs.Variable("c", np.float16)
        nodes = [
            gs.Node(op, inputs=[constant("a", [0.1])], outputs=[h]), gs.Node("Cast", attrs={"to": 10}, inputs=[h], outputs=[c]),
            gs.Node("Mul", inputs=[x, c], outputs=[y]),
        ]  # fmt: skip
        assert ops(folded(graph_of(nodes, [x], [y]))) == ["Cast", "Mul"]


# -- scale ----------------------------------------------------------------------------------------


def test_a_long_chain_that_is_not_constant_makes_no_session(monkeypatch):
    monkeypatch.setattr(onnxruntime, "nodes_session", lambda *_: pytest.fail("a session was made"))
    x = previous = gs.Variable("x", np.float32, (2,))
    nodes = []
    for k in range(20_000):
        following = gs.Variable(f"t{k}", np.float32, (2,))
        nodes.append(gs.Node("Exp", inputs=[previous], outputs=[following]))
        previous = following
    assert len(graph_of(nodes, [x], [previous]).fold_constants().nodes) == 20_000


def test_large_intermediate_results_are_freed():
    previous = gs.Constant("a", np.ones((512, 1024), np.float32))
    nodes = []
    for k in range(40):
        following = gs.Variable(f"t{k}")
        nodes.append(gs.Node("Exp" if k % 2 else "Neg", inputs=[previous], outputs=[following]))
        previous = following
    y = gs.Variable("y", np.float32)
    nodes.append(gs.Node("ReduceMax", attrs={"keepdims": 0}, inputs=[previous], outputs=[y]))
    graph = graph_of(nodes, [], [y])
    graph.fold_constants()
    assert isinstance(y, gs.Constant)
    assert sum(t.nbytes for t in graph.tensors().values() if isinstance(t, gs.Constant) and t.name != "a") < 1 << 20
    assert not graph.cleanup().nodes


def test_without_onnxruntime_shapes_and_small_arithmetic_still_fold(monkeypatch, caplog):
    def missing():
        raise gs.MissingExtraError("onnxruntime", "cpu", "evaluate graphs")

    monkeypatch.setattr(onnxruntime, "_load", missing)
    graph = parse("g (float[2] x) => (int64[1] s, float[2] e, float[2] m) <float[2] a = {1, 2}> { s = Shape (x) e = Exp (a) m = Mul (a, a) }")
    graph.fold_constants().cleanup()
    assert ops(graph) == ["Exp"]
    assert "onnxruntime" in caplog.text


def test_function_fold_constants_works_on_its_body():
    functions = '<domain: "local", opset_import: ["" : 18]> F (x) => (y) { a = Constant <value_floats = [1.0, 2.0]> () b = Exp (a) y = Mul (x, b) }'
    graph = parse("g (float[2] x) => (float[2] y) { y = local.F (x) }", functions=functions)
    before = graph.copy()
    assert [n.op for n in graph.functions[0].fold_constants().cleanup().nodes] == ["Mul"]
    assert verify(before, graph).same
    assert ops(parse("g (float[2] x) => (float[2] y) { y = local.F (x) }", functions=functions).fold_constants(recurse_functions=False).functions[0]) == [
        "Constant", "Exp", "Mul",
    ]  # fmt: skip


def test_captured_constants_fold_inside_bodies_once():
    graph = parse("""g (int64 n, float[2] x) => (float[2] y) <float[2] a = {1, 2}, bool c = {1}> {
        e = Exp (a)
        y = Loop (n, c, x) <body = b (int64 i, bool d, float[2] v) => (bool d2, float[2] w) { d2 = Identity (d) f = Neg (e) w = Add (v, f) }> }""")
    after = folded(graph)
    assert [n.op for n in after.nodes[0].attrs["body"].nodes] == ["Identity", "Add"]


def test_compare_is_what_the_tests_rely_on():
    assert compare(np.float32([np.nan]), np.float32([np.nan])) is None
    assert fold_constants(gs.Graph()) is None


@pytest.mark.parametrize("limit", [None, 1 << 20])
@pytest.mark.parametrize("size_threshold", [None, 4])
def test_folding_again_goes_on_from_what_is_ready(limit, size_threshold):
    text = """g (float[n] x) => (float[m] y, float[k] z) <float[2] c = {1.0, 2.0}, float[2] d = {3.0, 4.0}, int64[1] one = {1}> {
        a = Neg (c) s = Shape (a) t = Add (s, one) f = Cast <to = 1> (t) y = Add (x, f) b = Relu (x) e = Neg (d) z = Mul (b, e) }"""
    whole, again = (parse(text) for _ in range(2))
    fold_constants(whole, max_growth=limit, size_threshold=size_threshold, should_exclude_node=lambda node: node.inputs[0].name == "d")
    fold_constants(again, max_growth=limit, size_threshold=size_threshold, ready={id(again.nodes[0])})
    assert [node.op for node in again.cleanup().nodes] == [node.op for node in whole.cleanup().nodes]
    assert "Neg" in {node.op for node in again.nodes}
    assert "Cast" not in {node.op for node in again.nodes}


def test_exact_float16_is_computed_whatever_it_waits_for():
    half = "g (float[2, 4] x) => (int64[n] y) { s = Shape(x) h = Cast <to = 10> (s) "
    graph = parse(half + "f = Floor(h) m = Mul(f, f) r = Sqrt(m) y = Cast <to = 7> (r) }").fold_constants()
    assert graph.outputs[0].values.tolist() == [2, 4]
    graph = parse(half + "r = Sqrt(h) m = Mul(r, r) y = Cast <to = 7> (m) }").fold_constants().cleanup()
    assert [node.op for node in graph.nodes] == ["Sqrt", "Mul", "Cast"]
