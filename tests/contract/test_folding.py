"""What scripts rely on: constant folding, shape folding, elision of casts, evaluation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_gs as gs
from tests.support.rewrites import assert_same, feeds_of, model, parse, run

if TYPE_CHECKING:
    from pathlib import Path


def v(name: str, dtype: Any = np.float32, shape: Any = (2,)) -> gs.Variable:
    return gs.Variable(name, dtype, shape)


def c(name: str, values: Any, dtype: Any = np.float32) -> gs.Constant:
    return gs.Constant(name, np.array(values, dtype))


def folded(proto: onnx.ModelProto, feeds: dict[str, Any] | None = None, **options: Any) -> gs.Graph:
    """Fold and clean an import of a model; both compute the same in ONNX Runtime."""
    graph = gs.import_onnx(proto).fold_constants(**options).cleanup()
    after = gs.export_onnx(graph)
    onnx.checker.check_model(after, full_check=True)
    for given in [feeds] if feeds is not None else feeds_of(proto, {}):
        assert_same(run(proto, given), run(after, given))
    return graph


def ops(graph: Any) -> list[str]:
    return [node.op for node in graph.nodes]


def weight(graph: gs.Graph, name: str) -> Any:
    tensor = graph.tensors()[name]
    assert isinstance(tensor, gs.Constant)
    return tensor.values


SUM = "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> { h = Add (a, b) i = Neg (h) y = Mul (x, i) }"


# -- in place, names, dead nodes ------------------------------------------------------------------


def test_folding_is_in_place_and_dead_nodes_stay_until_cleanup() -> None:
    graph = parse(SUM)
    tensors, nodes = graph.tensors(), list(graph.nodes)
    assert graph.fold_constants() is graph
    assert all(graph.tensors()[name] is tensors[name] for name in ("i", "x", "y"))
    assert list(map(id, graph.nodes)) == list(map(id, nodes))
    assert [len(node.outputs) for node in graph.nodes] == [0, 0, 1]
    assert weight(graph, "i").tolist() == [-4, -6]
    assert not tensors["i"].inputs
    assert graph.cleanup().nodes == nodes[2:]


def test_intermediate_results_are_stored_too() -> None:
    graph = parse(SUM)
    h = graph.tensors()["h"]
    graph.fold_constants()
    assert isinstance(h, gs.Constant)
    assert h.values.tolist() == [4, 6]


def test_a_graph_without_constants_is_left() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    before = graph.copy()
    assert graph.fold_constants() == before


def test_graph_outputs_fold_and_keep_their_names() -> None:
    graph = folded(model("g () => (float[2] y) <float[2] a = {1, 2}> { h = Neg (a) y = Exp (h) }"))
    assert [(t.name, type(t)) for t in graph.outputs] == [("y", gs.Constant)]
    assert not graph.nodes


def test_the_ways_of_partitioning() -> None:
    for mode in (None, "basic", "recursive"):
        assert ops(folded(model(SUM), partitioning=mode)) == ["Mul"]
    with pytest.raises(gs.OnnxGraphSurgeonException, match="'other'"):
        parse(SUM).fold_constants(partitioning="other")


@pytest.mark.parametrize("partitioning", ["basic", "recursive"])
def test_an_unknown_operator_stays_and_constants_beside_it_fold(partitioning: str) -> None:
    graph = parse(
        """g (float[2] x) => (float[2] y, float[2] z) <float[2] a = {1, 2}> {
             h = Neg (a) i = custom.Unknown (h) j = Abs (i) k = Exp (a) y = Add (x, j) z = Add (x, k) }"""
    )
    graph.fold_constants(partitioning=partitioning).cleanup()
    assert ops(graph) == ["Unknown", "Abs", "Add", "Add"]
    assert isinstance(graph.nodes[0].inputs[0], gs.Constant)
    assert isinstance(graph.nodes[-1].inputs[1], gs.Constant)


def test_errors_are_raised_where_they_are_not_ok() -> None:
    text = "g (float[2] x) => (float[2] y) <float[3] a = {1, 2, 3}, float[2] b = {1, 2}> { h = Add (a, b) y = Add (x, h) }"
    assert ops(parse(text).fold_constants()) == ["Add", "Add"]
    with pytest.raises(gs.OnnxGraphSurgeonException):
        parse(text).fold_constants(error_ok=False)


@pytest.mark.parametrize(("threshold", "stored"), [(None, [True, True]), (4000, [True, True]), (3999, [False, True]), (3, [False, False])])
def test_results_above_the_threshold_are_not_stored_but_smaller_ones_of_them_are(threshold: int | None, stored: list[bool]) -> None:
    shape, y, z = c("shape", [1000], np.int64), v("y", shape=(1000,)), v("z", shape=())
    wide, small = gs.Variable("wide"), gs.Variable("small")
    nodes = [
        gs.Node("ConstantOfShape", inputs=[shape], outputs=[wide]), gs.Node("ReduceSum", attrs={"keepdims": 0}, inputs=[wide], outputs=[small]),
        gs.Node("Add", inputs=[v("x", shape=(1000,)), wide], outputs=[y]), gs.Node("Add", inputs=[v("s", shape=()), small], outputs=[z]),
    ]  # fmt: skip
    graph = gs.Graph(nodes, [nodes[2].inputs[0], nodes[3].inputs[0]], [y, z], opset=18, ir_version=8)
    before = gs.export_onnx(graph)
    graph.fold_constants(size_threshold=threshold)
    assert [isinstance(t, gs.Constant) for t in (wide, small)] == stored
    feeds = {"x": np.ones(1000, np.float32), "s": np.array(1, np.float32)}
    assert_same(run(before, feeds), run(gs.export_onnx(graph.cleanup()), feeds))


def test_the_threshold_holds_in_branches() -> None:
    text = """g (bool b) => (float[8] y) {
        y = If (b) <then_branch = t () => (float[8] p) <float[8] a = {1, 2, 3, 4, 5, 6, 7, 8}> { p = Neg (a) },
                    else_branch = e () => (float[8] q) <float[8] a2 = {1, 2, 3, 4, 5, 6, 7, 8}> { q = Abs (a2) }> }"""
    assert [ops(g) for g in folded(model(text), size_threshold=31).subgraphs()] == [["Neg"], ["Abs"]]
    assert [ops(g) for g in folded(model(text), size_threshold=32).subgraphs()] == [[], []]


def test_results_over_a_mebibyte_are_stored_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    text = """g (float[300000] x) => (float[300000] y) <int64[1] n = {300000}> {
        a = ConstantOfShape (n) b = Exp (a) y = Add (x, b) }"""
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        assert ops(folded(model(text))) == ["Add"]
    assert len([r for r in caplog.records if "size_threshold" in r.getMessage()]) <= 1


def test_excluded_nodes_stay_with_what_depends_on_them() -> None:
    asked: list[str] = []

    def exclude(node: gs.Node) -> bool:
        asked.append(node.op)
        return node.op == "Neg"

    text = "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { h = Abs (a) i = Neg (h) j = Exp (i) y = Mul (x, j) }"
    graph = folded(model(text), should_exclude_node=exclude)
    assert ops(graph) == ["Neg", "Exp", "Mul"]
    assert "Mul" not in asked


def test_exclusion_reaches_branches_and_functions() -> None:
    text = """g (bool b, float[2] x) => (float[2] y) <float[2] a = {1, 2}> {
        h = local.F (x)
        i = If (b) <then_branch = t () => (float[2] p) { p = Neg (a) }, else_branch = e () => (float[2] q) { q = Abs (a) }>
        y = Add (h, i) }"""
    function = """<domain: "local", opset_import: ["" : 18]> F (x) => (y) { k = Constant <value_floats = [1.0, 2.0]> () n = Neg (k) y = Add (x, n) }"""
    graph = folded(model(text, functions=function), should_exclude_node=lambda node: node.op == "Neg")
    assert [ops(g) for g in next(iter([graph])).subgraphs()] == [["Neg"], []]
    assert "Neg" in ops(graph.functions[0])


@pytest.mark.parametrize("recurse", [True, False])
def test_branches_and_functions_fold_on_request(recurse: bool) -> None:
    text = """g (bool b, float[2] x) => (float[2] y) <float[2] a = {1, 2}> {
        h = local.F (x)
        i = If (b) <then_branch = t () => (float[2] p) { p = Neg (a) }, else_branch = e () => (float[2] q) { q = Abs (a) }>
        y = Add (h, i) }"""
    function = """<domain: "local", opset_import: ["" : 18]> F (x) => (y) { k = Constant <value_floats = [1.0, 2.0]> () n = Neg (k) y = Add (x, n) }"""
    graph = folded(model(text, functions=function), recurse_subgraphs=recurse, recurse_functions=recurse)
    assert [ops(g) for g in graph.subgraphs()] == ([[], []] if recurse else [["Neg"], ["Abs"]])
    assert ops(graph.functions[0]) == (["Add"] if recurse else ["Constant", "Neg", "Add"])


# -- step 1: Constant nodes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "dtype", "values"),
    [("value = float[2] {1, 2}", np.float32, [1, 2]), ("value_float = 1.5", np.float32, 1.5), ("value_floats = [1.5, 2.5]", np.float32, [1.5, 2.5]),
     ("value_int = 3", np.int64, 3), ("value_ints = [3, 4]", np.int64, [3, 4])],
)  # fmt: skip
def test_constant_nodes_become_weights_of_their_type(attribute: str, dtype: Any, values: Any) -> None:
    kind = "float" if dtype is np.float32 else "int64"
    shape = "[2]" if isinstance(values, list) else ""
    graph = folded(model(f"g ({kind}{shape} x) => ({kind}{shape} y) {{ k = Constant <{attribute}> () y = Add (x, k) }}"))
    assert ops(graph) == ["Add"]
    assert weight(graph, "k").dtype == dtype
    assert weight(graph, "k").tolist() == values


def test_constant_nodes_become_weights_without_being_read() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { k = Constant <value = float[2] {1, 2}> () y = Add (x, k) }").fold_constants()
    k = graph.tensors()["k"]
    assert isinstance(k, gs.Constant)
    assert isinstance(k._values, gs.LazyValues)


@pytest.mark.parametrize("attribute", ['value_string = "a"', 'value_strings = ["a", "b"]'])
def test_string_constants_can_be_exported(attribute: str) -> None:
    text = f"g (int64[1] i) => (string[n] y) {{ k = Constant <{attribute}> () u = Constant <value_ints = [-1]> () r = Reshape (k, u) y = Gather (r, i) }}"
    folded(model(text), {"i": np.int64([0])})


def test_references_to_attributes_of_the_function_stay() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.F <k = 2.0> (x) }",
        functions="""<domain: "local", opset_import: ["" : 18]> F <k> (x) => (y) { c = Constant <value_float: float = @k> () n = Neg (c) y = Mul (x, n) }""",
    )
    graph = folded(proto, {"x": np.float32([1, 2])})
    assert ops(graph.functions[0]) == ["Constant", "Neg", "Mul"]


def test_a_sparse_constant_computes_as_before() -> None:
    sparse = helper.make_sparse_tensor(helper.make_tensor("v", 1, [2], [1.0, 2.0]), helper.make_tensor("i", 7, [2], [0, 2]), [3])
    proto = model("g (float[3] x) => (float[3] y) { k = Constant <value = float[3] {0, 0, 0}> () n = Neg (k) y = Add (x, n) }")
    del proto.graph.node[0].attribute[:]
    proto.graph.node[0].attribute.append(helper.make_attribute("sparse_value", sparse))
    graph = gs.import_onnx(proto).fold_constants().cleanup()
    after = gs.export_onnx(graph)
    assert run(after, {"x": np.float32([1, 1, 1])})[0].tolist() == [0, 1, -1]


# -- step 2: casts around integer arithmetic ------------------------------------------------------

ELIDABLE = "g (float[{dims}] x, float[3, 4] z) => ({out} y) {{ s = Shape (x) f = Cast <to = 1> (s) {middle} }}"


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min"])
def test_casts_around_arithmetic_on_dims_go(op: str) -> None:
    other = "f2 = Constant <value_float = 2.0> ()" if op == "Mul" else "s2 = Shape (x) f2 = Cast <to = 1> (s2)"  # products of two dims may be too large
    text = ELIDABLE.format(dims="n, m", out="int64[2]", middle=f"{other} r = {op} (f, f2) y = Cast <to = 7> (r)")
    graph = folded(model(text), {"x": np.zeros((5, 2), np.float32), "z": np.zeros((3, 4), np.float32)})
    assert "Cast" not in ops(graph)
    assert op in ops(graph)
    assert [t.name for t in graph.outputs] == ["y"]


def test_fractions_are_not_rounded_to_integers() -> None:
    text = ELIDABLE.format(dims="n, m", out="int64[2]", middle="h = Constant <value_float = 0.5> () r = Mul (f, h) y = Cast <to = 7> (r)")
    graph = folded(model(text), {"x": np.zeros((6, 2), np.float32), "z": np.zeros((3, 4), np.float32)})
    assert ops(graph).count("Cast") == 2


def test_a_true_float_keeps_the_casts() -> None:
    text = "g (float[n, m] x, float[2] q) => (int64[2] y) { s = Shape (x) f = Cast <to = 1> (s) r = Add (f, q) y = Cast <to = 7> (r) }"
    graph = folded(model(text), {"x": np.zeros((6, 2), np.float32), "q": np.float32([0.75, 1.5])})
    assert ops(graph).count("Cast") == 2


@pytest.mark.parametrize("op", ["Equal", "Greater", "Less"])
def test_comparisons_stay_of_bools(op: str) -> None:
    text = "g (float[n, m] x) => (int64[2] y) {{ s = Shape (x) f = Cast <to = 1> (s) k = Constant <value_floats = [2.0, 3.0]> () r = {} (f, k) y = Cast <to = 7> (r) }}"
    folded(model(text.format(op)), {"x": np.zeros((3, 2), np.float32)})


def test_a_constant_that_others_read_as_float_stays_float() -> None:
    text = """g (float[n, m] x, float[2] q) => (int64[2] y, float[2] z) <float[2] k = {2, 3}> {
        s = Shape (x) f = Cast <to = 1> (s) r = Add (f, k) y = Cast <to = 7> (r) z = Add (q, k) }"""
    graph = folded(model(text), {"x": np.zeros((3, 2), np.float32), "q": np.float32([0.5, 0.5])})
    assert weight(graph, "k").dtype == np.float32


def test_two_casts_back_both_keep_a_producer() -> None:
    text = """g (float[n, m] x) => (int64[2] y, int64[2] z) {
        s = Shape (x) f = Cast <to = 1> (s) r = Add (f, f) a = Cast <to = 7> (r) b = Cast <to = 7> (r) y = Neg (a) z = Abs (b) }"""
    folded(model(text), {"x": np.zeros((3, 2), np.float32)})


def test_integers_that_float_cannot_hold_keep_what_the_casts_round() -> None:
    text = "g (int64[2] x) => (int64[2] y) { f = Cast <to = 1> (x) r = Add (f, f) y = Cast <to = 7> (r) }"
    folded(model(text), {"x": np.int64([2**24 + 1, 5])})


def test_without_shape_folding_casts_and_shapes_stay() -> None:
    text = "g (float[3, 4] x) => (int64[2] y) { s = Shape (x) f = Cast <to = 1> (s) r = Add (f, f) y = Cast <to = 7> (r) }"
    assert ops(folded(model(text), fold_shapes=False)) == ["Shape", "Cast", "Add", "Cast"]
    assert ops(folded(model(text))) == []


# -- step 3: what can be folded -------------------------------------------------------------------


@pytest.mark.parametrize("before", [False, True])
def test_quantization_is_left(before: bool) -> None:
    start = "h = Neg (a) q = QuantizeLinear (h, s, z)" if before else "q = QuantizeLinear (a, s, z)"
    text = f"""g (float[2] x) => (float[2] y) <float[2] a = {{1, 2}}, float s = {{0.5}}, int8 z = {{0}}> {{
        {start} d = DequantizeLinear (q, s, z) y = Add (x, d) }}"""
    assert ops(folded(model(text))) == ["QuantizeLinear", "DequantizeLinear", "Add"]
    text = """g () => (uint8[2] q, float t, uint8 p) <float[2] a = {1, 2}> { q, t, p = DynamicQuantizeLinear (a) }"""
    assert ops(folded(model(text), {})) == ["DynamicQuantizeLinear"]


def test_an_if_that_reads_a_variable_in_a_branch_stays() -> None:
    text = """g (float[2] x) => (float[2] y) <bool b = {1}> {
        y = If (b) <then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () => (float[2] q) { q = Abs (x) }> }"""
    assert ops(folded(model(text), flatten_subgraphs=False)) == ["If"]


def test_omitted_inputs_do_not_block() -> None:
    text = 'g (float[2] x) => (float[2] y) <float[2] a = {1, 9}, float top = {3}> { h = Clip (a, "", top) y = Add (x, h) }'
    assert ops(folded(model(text))) == ["Add"]


def test_constants_that_are_graph_inputs_are_constants() -> None:
    a, y = c("a", [1, 2]), v("y")
    graph = gs.Graph([gs.Node("Neg", inputs=[a], outputs=[y])], [a], [y], opset=18)
    assert isinstance(graph.fold_constants().outputs[0], gs.Constant)


def test_a_default_that_a_caller_may_override_is_no_constant() -> None:
    proto = model("g (float[2] x, float[2] w) => (float[2] y) { h = Neg (w) y = Add (x, h) }")
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, (2,), [1, 2]))
    graph = folded(proto, {"x": np.float32([1, 1]), "w": np.float32([5, 6])})
    assert ops(graph) == ["Neg", "Add"]


# -- step 4: shapes -------------------------------------------------------------------------------


def shape_of(dims: str, nodes: str, opset: int = 18, **feeds: Any) -> gs.Graph:
    return folded(model(f"g (float[{dims}] x) => (int64{feeds.pop('out', '[k]')} y) {{ s = Shape (x) {nodes} }}", opset), feeds or None)


def test_a_static_shape_becomes_a_weight() -> None:
    graph = folded(model("g (float[3, 4] x) => (int64[2] y) { y = Shape (x) }"))
    assert weight(graph, "y").tolist() == [3, 4]
    assert weight(graph, "y").dtype == np.int64


def test_the_shape_of_a_scalar_is_an_empty_weight() -> None:
    x, y = v("x", shape=()), v("y", np.int64, (0,))
    graph = gs.Graph([gs.Node("Shape", inputs=[x], outputs=[y])], [x], [y], opset=18).fold_constants()
    assert weight(graph, "y").shape == (0,)


@pytest.mark.parametrize("dim", ["n", "", -1, None])
def test_shapes_with_unknown_dims_stay(dim: Any) -> None:
    x, y = v("x", shape=(3, dim)), v("y", np.int64, (2,))
    graph = gs.Graph([gs.Node("Shape", inputs=[x], outputs=[y])], [x], [y], opset=18).fold_constants().cleanup()
    assert ops(graph) == ["Shape"]


def test_a_shape_of_unknown_rank_stays() -> None:
    x, y = v("x", shape=None), v("y", np.int64, (2,))
    nodes = [gs.Node("Shape", inputs=[x], outputs=[v("s", np.int64, None)])]
    nodes.append(gs.Node("Gather", inputs=[nodes[0].outputs[0], c("i", 0, np.int64)], outputs=[y]))
    assert ops(gs.Graph(nodes, [x], [y], opset=18).fold_constants().cleanup()) == ["Shape", "Gather"]


def test_numpy_integers_are_dims() -> None:
    x, y = v("x", shape=(np.int64(3), np.int32(4))), v("y", np.int64, (2,))
    graph = gs.Graph([gs.Node("Shape", inputs=[x], outputs=[y])], [x], [y], opset=18).fold_constants()
    assert weight(graph, "y").tolist() == [3, 4]


@pytest.mark.parametrize(("indices", "expected"), [("int64 i = {1}", 4), ("int64[1] i = {1}", [4]), ("int64[2] i = {2, -2}", [5, 4]),
                                                   ("int64[1, 2] i = {1, 2}", [[4, 5]])])  # fmt: skip
def test_gathered_static_dims_become_weights_whatever_the_rank_of_the_indices(indices: str, expected: Any) -> None:
    rank = {0: "", 1: "[k]", 2: "[k, l]"}[np.ndim(expected)]
    proto = model(f"g (float[n, 4, 5] x) => (int64{rank} y) <{indices}> {{ s = Shape (x) y = Gather (s, i) }}")
    graph = folded(proto, {"x": np.zeros((2, 4, 5), np.float32)})
    assert weight(graph, "y").tolist() == expected
    proto = model(f"g (float[2, n, 5] x) => (int64{rank} y) <{indices}> {{ s = Shape (x) y = Gather (s, i) }}")
    assert ops(folded(proto, {"x": np.zeros((2, 4, 5), np.float32)})) == ["Shape", "Gather"]


@pytest.mark.parametrize(
    ("starts", "ends", "steps", "expected"),
    [(1, 3, 1, [4, 5]), (-2, 3, 1, [4, 5]), (1, 99, 1, [4, 5]), (1, -1, 1, [4]), (2, 0, -1, [5, 4]), (1, 2**31 - 1, 2, [4]), (2, 1, 1, []),
     (-99, 2**62, 3, None)],
)  # fmt: skip
@pytest.mark.parametrize("axes", ["zero", "negative", "omitted"])
def test_slices_of_static_dims_become_weights(starts: int, ends: int, steps: int, expected: list[int] | None, axes: str) -> None:
    given = {"zero": "c0", "negative": "cn", "omitted": '""'}[axes]
    proto = model(
        f"""g (float[n, 4, 5] x) => (int64[k] y) <int64[1] b = {{{starts}}}, int64[1] e = {{{ends}}}, int64[1] st = {{{steps}}},
              int64[1] c0 = {{0}}, int64[1] cn = {{-1}}> {{ s = Shape (x) y = Slice (s, b, e, {given}, st) }}"""
    )
    graph = folded(proto, {"x": np.zeros((2, 4, 5), np.float32)})
    if expected is None:
        assert ops(graph) == ["Shape", "Slice"]
    else:
        assert weight(graph, "y").tolist() == expected


def test_slices_of_old_opsets_have_attributes() -> None:
    graph = shape_of("n, 4, 5", "y = Slice <starts = [1], ends = [3], axes = [0]> (s)", opset=9, x=np.zeros((2, 4, 5), np.float32))
    assert weight(graph, "y").tolist() == [4, 5]


@pytest.mark.parametrize(
    ("attributes", "expected"), [("start = 1", [4, 5]), ("end = 2", None), ("start = -2", [4, 5]), ("start = 1, end = 2", [4]), ("start = 1, end = -9", [])]
)
def test_start_and_end_of_shape_count(attributes: str, expected: list[int] | None) -> None:
    graph = folded(model(f"g (float[n, 4, 5] x) => (int64[k] y) {{ y = Shape <{attributes}> (x) }}"), {"x": np.zeros((2, 4, 5), np.float32)})
    if expected is None:
        assert ops(graph) == ["Shape"]
    else:
        assert weight(graph, "y").tolist() == expected


def test_start_of_shape_counts_under_gather_and_slice() -> None:
    graph = folded(model("g (float[n, 4, 5] x) => (int64 y) <int64 i = {0}> { s = Shape <start = 1> (x) y = Gather (s, i) }"), {"x": np.zeros((2, 4, 5), np.float32)})
    assert weight(graph, "y").tolist() == 4
    text = "g (float[n, 4, 5] x) => (int64[k] y) <int64[1] b = {0}, int64[1] e = {1}> { s = Shape <start = 1> (x) y = Slice (s, b, e) }"
    assert weight(folded(model(text), {"x": np.zeros((2, 4, 5), np.float32)}), "y").tolist() == [4]


@pytest.mark.parametrize("op", ["Shape", "Constant", "Cast", "Gather", "Slice", "If"])
def test_operators_of_other_domains_are_others(op: str) -> None:
    x, h, y = v("x"), v("h"), v("y")
    inputs: dict[str, list[gs.Tensor]] = {"Constant": [], "Gather": [x, c("i", 0, np.int64)], "If": [c("b", True, bool)]}
    attrs: dict[str, dict[str, Any]] = {"Constant": {"value": c("k", [1, 2])}, "Cast": {"to": 1}, "If": {"then_branch": gs.Graph(), "else_branch": gs.Graph()}}
    node = gs.Node(op, inputs=inputs.get(op, [x]), outputs=[h], attrs=attrs.get(op), domain="custom")
    graph = gs.Graph([node, gs.Node("Relu", inputs=[h], outputs=[y])], [x], [y], opset=18)
    assert ops(graph.fold_constants().cleanup()) == [op, "Relu"]


# -- step 5: evaluation ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "node",
    ["RandomNormal <shape = [2]> ()", "RandomUniform <shape = [2], seed = 1.0> ()", "RandomNormalLike (a)", "RandomUniformLike (a)", "Bernoulli (a)"],
)
def test_random_numbers_are_not_frozen(node: str) -> None:
    proto = model(f"g (float[2] x) => (float[2] y) <float[2] a = {{0.5, 0.25}}> {{ r = {node} y = Add (x, r) }}")
    assert len(gs.import_onnx(proto).fold_constants().cleanup().nodes) == 2


def test_draws_from_a_distribution_are_not_frozen() -> None:
    proto = model("g () => (int32[1, 3] y) <float[1, 2] a = {0.5, 0.25}> { y = Multinomial <sample_size = 3> (a) }")
    assert ops(gs.import_onnx(proto).fold_constants().cleanup()) == ["Multinomial"]


def test_dropout_in_training_is_not_frozen_also_where_it_is_hidden() -> None:
    proto = model(
        """g (float[2] x, bool b) => (float[2] y) <float[2] a = {1, 2}, float half = {0.5}, bool yes = {1}> {
             r, m = Dropout (a, half, yes)
             f = local.F (a)
             i = If (b) <then_branch = t () => (float[2] p) { p = RandomNormalLike (a) }, else_branch = e () => (float[2] q) { q = Identity (a) }>
             y = Sum (x, r, f, i) }""",
        functions="""<domain: "local", opset_import: ["" : 18]> F (a) => (b) { b = RandomUniformLike (a) }""",
    )
    graph = gs.import_onnx(proto).fold_constants().cleanup()
    assert ops(graph) == ["Dropout", "F", "If", "Sum"]
    assert ops(next(graph.subgraphs())) == ["RandomNormalLike"]


def test_calls_of_functions_with_constant_inputs_are_evaluated() -> None:
    functions = """<domain: "local", opset_import: ["" : 18]> Inner (x) => (y) { y = Neg (x) }
                   <domain: "local", opset_import: ["" : 18, "local" : 1]> Outer <k: float = 3.0> (x) => (y) {
                       c = Constant <value_float: float = @k> () n = local.Inner (x) y = Mul (n, c) }"""
    text = "g (float[2] x) => (float[2] y) <float[2] a = {{1, 2}}> {{ h = local.Outer {} (a) y = Add (x, h) }}"
    assert weight(folded(model(text.format(""), functions=functions)), "h").tolist() == [-3, -6]
    assert weight(folded(model(text.format("<k = 5.0>"), functions=functions)), "h").tolist() == [-5, -10]


def test_a_function_with_constant_nodes_folds_and_stays_valid() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { h = local.F (a) i = local.F (x) y = Add (i, h) }",
        functions="""<domain: "local", opset_import: ["" : 18]> F (x) => (y) { k = Constant <value_floats = [1.0, 2.0]> () e = Exp (k) y = Add (x, e) }""",
    )
    graph = folded(proto)
    assert ops(graph) == ["F", "Add"]
    assert ops(graph.functions[0]) == ["Add"]


def test_an_attribute_of_the_function_that_a_branch_reads_has_its_value() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, bool b = {1}> { h = local.F <k = 4.0> (a, b) y = Add (x, h) }",
        functions="""<domain: "local", opset_import: ["" : 18]> F <k> (x, b) => (y) {
            y = If (b) <then_branch = t () => (float[2] p) { c = Constant <value_float: float = @k> () p = Mul (x, c) },
                        else_branch = e () => (float[2] q) { q = Neg (x) }> }""",
    )
    assert weight(folded(proto), "h").tolist() == [4, 8]


def test_a_node_with_an_omitted_output_stops_nothing() -> None:
    text = """g (float[2] x) => (float[p, q, 2] y) <float[2] a = {1, 2}, float[1, 1, 1] t = {1}, float[1, 3, 1] w = {1, 2, 3}> {
        "", i = GRU <hidden_size = 1> (t, w, w) h = Neg (a) y = Sum (x, h, i) }"""
    assert ops(folded(model(text))) == ["Sum"]


def test_string_results_can_be_exported() -> None:
    text = "g (int64[1] i) => (string[1] y) <int64[2] n = {1, 2}> { s = Cast <to = 8> (n) y = Gather (s, i) }"
    graph = folded(model(text), {"i": np.int64([1])})
    assert ops(graph) == ["Gather"]
    assert weight(graph, "s").tolist() == ["1", "2"]


def test_results_that_are_sequences_stay_or_are_seen_through() -> None:
    text = "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, int64 at = {0}> { s = SequenceConstruct (a, a) e = SequenceAt (s, at) y = Add (x, e) }"
    folded(model(text))
    graph = parse("g () => (seq(float[2]) s) <float[2] a = {1, 2}> { s = SequenceConstruct (a, a) }")
    assert ops(graph.fold_constants().cleanup()) == ["SequenceConstruct"]


def test_names_of_nodes_do_not_matter() -> None:
    graphs = [parse(SUM) for _ in range(2)]
    graphs[0].nodes[1].name = "h"
    graphs[0].nodes[2].name = "i"
    folds = [[t.name for t in g.fold_constants().tensors().values() if isinstance(t, gs.Constant)] for g in graphs]
    assert folds[0] == folds[1]


def test_a_bfloat16_result_stops_nothing() -> None:
    text = "g (float[2] x) => (bfloat16[2] y, float[2] z) <float[2] a = {1, 2}> { h = Cast <to = 16> (a) y = Identity (h) i = Neg (a) z = Add (x, i) }"
    graph = parse(text).fold_constants().cleanup()
    assert ops(graph) == ["Add"]
    assert graph.outputs[0].values.dtype == ml_dtypes.bfloat16
    assert TensorProto.BFLOAT16 in [w.data_type for w in gs.export_onnx(graph).graph.initializer]


def test_results_above_the_threshold_are_not_computed() -> None:
    shape, x, y = c("shape", [1 << 40], np.int64), v("x", shape=(1 << 40,)), v("y", shape=(1 << 40,))
    wide = gs.Variable("wide")
    nodes = [gs.Node("ConstantOfShape", inputs=[shape], outputs=[wide]), gs.Node("Add", inputs=[x, wide], outputs=[y])]
    graph = gs.Graph(nodes, [x], [y], opset=18).fold_constants(size_threshold=1 << 20)
    assert ops(graph.cleanup()) == ["ConstantOfShape", "Add"]


def test_a_weight_whose_data_are_missing_stops_nothing_and_its_shape_is_known(tmp_path: Path) -> None:
    proto = model("g (float[2] x) => (int64[1] s, float[2] y, float[3] z) <float[2] a = {1, 2}> { s = Shape (w) h = Neg (a) y = Add (x, h) z = Neg (w) }")
    missing = proto.graph.initializer.add(name="w", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    missing.external_data.add(key="location", value=str(tmp_path / "nowhere"))
    graph = gs.import_onnx(proto).fold_constants().cleanup()
    assert ops(graph) == ["Add", "Neg"]
    assert weight(graph, "s").tolist() == [3]


def test_more_than_two_gibibytes_of_weights_stop_nothing() -> None:
    big = gs.Constant("big", np.broadcast_to(np.float32(1), (1 << 29, 2)))
    x, y, h, i = v("x"), v("y"), gs.Variable("h"), v("i", shape=None)
    nodes = [gs.Node("Add", inputs=[c("a", [1, 2]), c("b", [3, 4])], outputs=[h]), gs.Node("Gather", inputs=[big, v("at", np.int64, ())], outputs=[i]),
             gs.Node("Sum", inputs=[x, h, i], outputs=[y])]  # fmt: skip
    graph = gs.Graph(nodes, [x, nodes[1].inputs[1]], [y], opset=18).fold_constants().cleanup()
    assert ops(graph) == ["Gather", "Sum"]
    assert weight(graph, "h").tolist() == [4, 6]


def test_a_folded_tensor_that_branches_read_is_stored_once() -> None:
    text = """g (float[2] x, bool b) => (float[2] y) <float[2] a = {1, 2}> {
        h = Exp (a)
        y = If (b) <then_branch = t () => (float[2] p) { p = Add (x, h) }, else_branch = e () => (float[2] q) { q = Mul (x, h) }> }"""
    graph = folded(model(text))
    assert gs.export_onnx(graph).SerializeToString().count(np.ascontiguousarray(weight(graph, "h") if "h" in graph.tensors() else _inner(graph, "h")).tobytes()) == 1


def _inner(graph: gs.Graph, name: str) -> Any:
    return next(t.values for g in graph.subgraphs() for t in g.tensors().values() if t.name == name and isinstance(t, gs.Constant))


def test_a_constant_loop_that_ignores_its_counter_is_evaluated() -> None:
    text = """g (float[2] x) => (float[2] y) <int64 n = {3}, bool go = {1}, float[2] a = {1, 2}> {
        h = Loop (n, go, a) <body = l (int64 i, bool on, float[2] s) => (bool on2, float[2] s2) { on2 = Identity (on) s2 = Add (s, s) }>
        y = Add (x, h) }"""
    assert weight(folded(model(text)), "h").tolist() == [8, 16]


def test_folding_once_is_enough() -> None:
    text = """g (float[3, 4] x, bool b) => (float[12] y) <bool yes = {1}, float[12] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
        s = Shape (x) p = ReduceProd <keepdims = 1> (s)
        i = If (yes) <then_branch = t () => (int64[1] u) { u = Identity (p) }, else_branch = e () => (int64[1] q) { q = Neg (p) }>
        f = Reshape (x, i) y = Add (f, w) }"""
    once = folded(model(text))
    assert ops(once) == ["Reshape", "Add"]
    assert once.copy().fold_constants().cleanup() == once


def test_function_bodies_fold_on_their_own() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.F (x) }",
        functions="""<domain: "local", opset_import: ["" : 18]> F (x) => (y) { k = Constant <value_floats = [1.0, 2.0]> () e = Neg (k) y = Add (x, e) }""",
    )
    graph = gs.import_onnx(proto)
    (function,) = graph.functions
    assert function.fold_constants().cleanup() is function
    assert ops(function) == ["Add"]
    assert_same(run(proto, {"x": np.float32([1, 1])}), run(gs.export_onnx(graph), {"x": np.float32([1, 1])}))
