"""Binding symbolic dims, and making fixed ones symbolic."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import onnx_gs as gs
from onnx_gs.errors import GraphValueError
from onnx_gs.passes.bind_dims import BindDims
from onnx_gs.passes.make_dynamic import MakeDynamic
from tests.support.rewrites import assert_same, model, run


def test_a_dim_gets_its_size_everywhere():
    graph = gs.import_onnx(model("g (float[n, m] x) => (float[m, n] y) { t = Transpose (x) y = Neg (t) }"))
    graph.infer_shapes().bind_dims({"n": 4})
    assert list(graph.inputs[0].shape) == [4, "m"]
    assert list(graph.outputs[0].shape) == ["m", 4]
    assert list(graph.nodes[0].outputs[0].shape) == ["m", 4]


def test_an_expression_of_bound_dims_gets_its_value():
    x, y = gs.Variable("x", np.float32, ("n", 2)), gs.Variable("y", np.float32, ("2*n + 1", "n//k"))
    graph = gs.Graph([gs.Node("Custom", domain="my", inputs=[x], outputs=[y])], [x], [y])
    BindDims({"n": 4})(graph)
    assert list(y.shape) == [9, "n//k"]


def test_a_name_that_no_dim_has_is_an_error_that_lists_them():
    graph = gs.import_onnx(model("g (float[n, m] x) => (float[n, m] y) { y = Neg (x) }"))
    with pytest.raises(GraphValueError, match="'m', 'n'"):
        graph.bind_dims({"batch": 4})
    with pytest.raises(GraphValueError, match="cannot be -1"):
        graph.bind_dims({"n": -1})


FIXED = {
    "reshape": ("g (float[2, 6] x) => (float[2, 3, 2] y) <int64[3] t = {2, 3, 2}> { y = Reshape (x, t) }", [-1, 3, 2]),
    "merged": ("g (float[2, 3, 4] x) => (float[2, 12] y) <int64[2] t = {6, 4}, int64[2] u = {2, 12}> { a = Reshape (x, t) b = Exp (a) y = Reshape (b, u) }", [-1, 4]),
    "expand": ("g (float[2, 1] x) => (float[2, 3] y) <int64[2] t = {2, 3}> { y = Expand (x, t) }", [1, 3]),
    "slice": ("g (float[2, 6] x) => (float[2, 3] y) <int64[2] b = {0, 1}, int64[2] e = {2, 4}> { y = Slice (x, b, e) }", None),
}


@pytest.mark.parametrize("name", FIXED)
def test_a_constant_that_holds_the_old_size_is_mended(name):
    text, target = FIXED[name]
    source = model(text)
    graph = gs.import_onnx(source)
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    assert report.rewritten
    assert graph.inputs[0].shape[0] == "batch"
    assert graph.outputs[0].shape[0] == "batch"
    if target is not None:
        assert graph.nodes[0].inputs[1].values.tolist() == target
    result = gs.export_onnx(graph)
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    a, b = (np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in (0, 1))
    single = [run(source, {"x": part}) for part in (a, b)]
    assert_same(single[0], run(result, {"x": a}))
    assert_same([np.concatenate([single[0][0], single[1][0]])], run(result, {"x": np.concatenate([a, b])}))


def test_a_token_in_front_of_each_row_follows():
    text = "g (float[2, 3, 4] x) => (float[2, 4, 4] y) <float[1, 1, 4] token = {1, 2, 3, 4}, int64[3] t = {2, 1, 4}> { a = Expand (token, t) y = Concat <axis = 1> (a, x) }"
    source = model(text)
    graph = gs.import_onnx(source)
    assert not graph.make_dynamic("x", 0, "batch").declined
    (found,) = run(gs.export_onnx(graph), {"x": np.zeros((5, 3, 4), np.float32)})
    assert found.shape == (5, 4, 4)
    assert found[:, 0].tolist() == [[1, 2, 3, 4]] * 5


def test_what_cannot_be_proved_leaves_the_model_as_it_was():
    text = "g (float[2, 3] x) => (float[2, 3] y) <float[2, 1] w = {1, 2}> { y = Mul (x, w) }"
    graph = gs.import_onnx(model(text))
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.rewritten
    assert "its parts differ" in report.declined[0].reason
    assert list(graph.inputs[0].shape) == [2, 3]


def test_an_output_that_does_not_follow_is_no_proof():
    text = "g (float[2, 3] x) => (float[2, 3] y) <int64[2] i = {0, 1}> { y = Gather (x, i) }"
    report = gs.import_onnx(model(text)).make_dynamic("x", 0, "batch")
    assert "keeps the size 2" in report.declined[0].reason


def test_another_input_that_holds_the_size_is_named():
    text = "g (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) { y = Add (x, z) }"
    reason = gs.import_onnx(model(text)).make_dynamic("x", 0, "batch").declined[0].reason
    assert reason == "axis 0 of input 'z' holds the size too; free it together with this one, under the same name 'batch'"
    graph = gs.import_onnx(model(text))
    assert not MakeDynamic("x,z", 0, "batch")(graph).declined
    assert list(graph.outputs[0].shape) == ["batch", 3]


def test_several_inputs_are_freed_together_each_by_its_axis():
    text = "g (float[2, 3] x, float[3, 2] z) => (float[2, 3] y) { t = Transpose (z) y = Add (x, t) }"
    graph = gs.import_onnx(model(text))
    report = graph.make_dynamic({"x": 0, "z": -1}, name="b")
    assert not report.declined, report.declined
    assert [e.reason for e in report.rewritten] == ["axis 0 is 'b'", "axis 1 is 'b'"]
    assert [list(t.shape) for t in (*graph.inputs, *graph.outputs)] == [["b", 3], [3, "b"], ["b", 3]]
    x, z = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    assert_same([x + z], run(gs.export_onnx(graph), {"x": x, "z": z.T.copy()}))


def test_an_output_that_follows_on_neither_axis_is_no_proof():
    text = """g (float[2, 3] x, float[3, 2] z) => (float[2, 3] y, float[2, 2] w) <int64[2] i = {0, 1}> {
        t = Transpose (z) y = Add (x, t) a = Gather (x, i) b = Gather <axis = 1> (z, i) w = MatMul (a, b) }"""
    graph = gs.import_onnx(model(text))
    report = graph.make_dynamic({"x": 0, "z": 1}, name="b")
    assert "'w' keeps the size 2" in report.declined[0].reason
    assert list(graph.inputs[1].shape) == [3, 2]


def test_constants_that_nodes_hold_are_mended_like_weights():
    text = """g (float[2, 6] x) => (float[2, 3, 2] y) {
        zero = Constant <value_float = 0.0> () one = Constant <value_float = 1.0> () t = Constant <value_ints = [2, 3, 2]> ()
        s = Shape <start = 0, end = 1> (x) n = Squeeze (s) a = CastLike (zero, n) b = CastLike (one, n) rows = Range (a, n, b)
        g = Gather (x, rows) e = Add (g, x) y = Reshape (e, t) }"""
    source = model(text)
    graph = gs.import_onnx(source)
    next(node for node in graph.nodes if node.op == "Range").outputs[0].shape = [2]  # as it was declared while the size was fixed
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    assert_same([(x + x).reshape(5, 3, 2)], run(gs.export_onnx(graph), {"x": x}))


AMONG_SYMBOLS = {
    "kept": "g (float[2, s, 6] x) => (float[2, s, 3, 2] y) <int64[4] t = {2, 0, 3, 2}> { y = Reshape (x, t) }",
    "merged": """g (float[2, s, 6] x) => (float[2, s, 6] y) <int64[4] split = {2, -1, 3, 2}, int64[3] flat = {6, -1, 2}, int64[4] heads = {2, 3, -1, 2}, int64[3] back = {2, -1, 6}> {
        a = Reshape (x, split) b = Transpose <perm = [0, 2, 1, 3]> (a) c = Reshape (b, flat) d = Tanh (c) e = Reshape (d, heads)
        f = Transpose <perm = [0, 2, 1, 3]> (e) y = Reshape (f, back) }""",
    "joined": """g (float[2, s, 6] x) => (float[2, s, 6] y) <int64[1] two = {2}, int64[1] six = {6}, int64[1] one = {1}> {
        n = Shape <start = 1, end = 2> (x) t = Concat <axis = 0> (two, n, one, six) a = Unsqueeze (x, two) b = Expand (a, t) u = Concat <axis = 0> (two, n, six)
        c = Reshape (b, u) y = Tanh (c) }""",
    "joined and merged": """g (float[2, 3, s] x) => (float[2, 3, s] y) <int64[1] six = {6}, int64[2] back = {2, 3}> {
        n = Shape <start = 2> (x) t = Concat <axis = 0> (six, n) a = Reshape (x, t) b = Tanh (a) u = Concat <axis = 0> (back, n) y = Reshape (b, u) }""",
}  # fmt: skip


AMONG_SYMBOLS |= {
    "flattened": """g (float[2, s, 6] x) => (float[2, s, 6] y) <int64[2] flat = {-1, 6}, int64[3] back = {2, -1, 6}> {
        a = Reshape (x, flat) b = Tanh (a) y = Reshape (b, back) }""",
    "tiled": """g (float[2, s, 6] x) => (float[2, s, 6] y) <float[1, 1, 6] h = {1, 2, 3, 4, 5, 6}, int64[1] two = {2}, int64[1] one = {1}> {
        n = Shape <start = 1, end = 2> (x) t = Concat <axis = 0> (two, n, one) a = Tile (h, t) y = Add (x, a) }""",
    "expanded": """g (float[2, s, 6] x) => (float[2, s, 12] y) <float[1, 1, 6] h = {1, 2, 3, 4, 5, 6}, int64[1] two = {2}, int64[1] six = {6}> {
        n = Shape <start = 1, end = 2> (x) t = Concat <axis = 0> (two, n, six) a = Expand (h, t) y = Concat <axis = 2> (x, a) }""",
}


@pytest.mark.parametrize("name", AMONG_SYMBOLS)
def test_targets_are_mended_beside_dims_that_are_symbolic_already(name):
    source = model(AMONG_SYMBOLS[name])
    graph = gs.import_onnx(source)
    shape = [4 if d == "s" else d for d in graph.inputs[0].shape]
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    assert list(graph.outputs[0].shape)[:1] == ["batch"]
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
    single = [run(source, {"x": part})[0] for part in parts]
    result = gs.export_onnx(graph)
    assert_same([single[0]], run(result, {"x": parts[0]}))
    assert_same([np.concatenate(single)], run(result, {"x": np.concatenate(parts)}))
    assert_same([single[1][:1]], run(result, {"x": parts[1][:1]}))


def test_a_weight_that_counts_through_the_axis_counts_on_where_the_outputs_prove_it():
    text = """g (float[2, s, 6] x) => (float[2, s, 6] y) <int64[2, 1] rows = {0, 1}, int64[2] flat = {-1, 6}, int64[3] back = {2, -1, 6}, int64 z = {0}, int64 o = {1}> {
        n = Shape <start = 1, end = 2> (x) k = Squeeze (n) r = Range (z, k, o) a = Mul (rows, n) b = Add (a, r) f = Reshape (x, flat)
        c = Gather (f, b) d = Reshape (c, back) y = Add (d, x) }"""
    source = model(text)
    graph = gs.import_onnx(source)
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    assert any("counted on" in entry.reason for entry in report.rewritten)
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((2, 4, 6)).astype(np.float32) for _ in range(3)]
    single = np.concatenate([run(source, {"x": part})[0] for part in parts])
    for count in (1, 2, 5, 6):
        assert_same([single[:count]], run(gs.export_onnx(graph), {"x": np.concatenate(parts)[:count]}))
    turned = text.replace("y = Add (d, x)", "q = Add (d, x) y = Transpose <perm = [1, 0, 2]> (q)").replace("float[2, s, 6] y", "float[s, 2, 6] y")
    assert "would prove" in gs.import_onnx(model(turned)).make_dynamic("x", 0, "batch").declined[0].reason


def test_a_weight_that_counts_but_is_no_index_of_the_axis_proves_nothing():
    text = "g (float[2, 3] x) => (float[2, 3] y) <int64[2, 1] w = {0, 1}> { c = Cast <to = 7> (x) a = Add (c, w) y = Cast <to = 1> (a) }"
    graph = gs.import_onnx(model(text))
    assert "is not what each gives alone" in graph.make_dynamic("x", 0, "batch").declined[0].reason
    assert list(graph.inputs[0].shape) == [2, 3]


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 23), reason="this ONNX Runtime takes lengths beyond the end, and reads there"
)
def test_lengths_that_the_model_does_not_run_on_are_made_smaller():
    graph = gs.import_onnx(model("g (float[2, 3] x, int64[2] n) => (float[2, 3] y) { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n) }"))
    report = graph.make_dynamic({"x": 0, "n": 0}, name="batch")
    assert not report.declined, report.declined
    assert list(graph.outputs[0].shape) == ["batch", 3]


def test_what_cannot_be_freed_together_is_an_error():
    text = "g (float[2, 3] x, float[3, 3] z) => (float[3, 3] y) { y = MatMul (z, z) }"
    graph = gs.import_onnx(model(text))
    with pytest.raises(GraphValueError, match="axis 0 of 'x' has 2, axis 0 of 'z' has 3"):
        graph.make_dynamic({"x": 0, "z": 0}, name="b")
    with pytest.raises(GraphValueError, match="'x' is named twice"):
        MakeDynamic("x", 0, "b", {"x": 1})(graph)
    for bad in (("x",), ({"x": 0}, 0), ({},)):
        with pytest.raises(GraphValueError, match="takes an input and its axis"):
            graph.make_dynamic(*bad)
    assert list(graph.inputs[0].shape) == [2, 3]


def test_a_dim_is_bound_by_input_and_axis():
    text = "g (float[?, n] x, float[?, n] z) => (float[?, n] y) { y = Add (x, z) }"
    for key in ("x:0", "x:-2", ("x", 0)):
        graph = gs.import_onnx(model(text)).bind_dims({key: 4})
        assert [list(t.shape) for t in graph.inputs] == [[4, "n"], [None, "n"]]
    graph = gs.import_onnx(model(text)).bind_dims({("x", 0): 4, ("z", 0): 4, "z:1": 3})
    assert [list(t.shape) for t in (*graph.inputs, *graph.outputs)] == [[4, 3], [4, 3], [None, 3]]
    assert list(graph.bind_dims({"x:0": 4}).inputs[0].shape) == [4, 3]  # which it is already
    assert list(gs.import_onnx(model(text)).lower_control_flow(bind={("z", 0): 2}).inputs[1].shape) == [2, "n"]


def test_the_name_of_a_dim_goes_before_what_it_reads_like():
    x, y = gs.Variable("x", np.float32, (None, "x:0")), gs.Variable("y", np.float32, (None, "x:0"))
    graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y]).bind_dims({"x:0": 4})
    assert list(graph.inputs[0].shape) == [None, 4]


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"m": 4}, "no dim is named 'm'"), ({"w:0": 4}, "no dim is named 'w:0'"), ({("w", 0): 4}, "no input 'w'"),
        ({"x:2": 4}, "has no axis 2"), ({"z:0": 4}, "axis 0 of input 'z' has the size 5, and not 4"), ({"x:0": -1}, "cannot be -1"),
        ({"n": 4, "x:1": 5}, "dim 'n' is to have the sizes 4 and 5"), ({"x:0": 4, ("x", 0): 5}, "axis 0 of input 'x' is to have the sizes 4 and 5"),
        ({3: 4}, "3 names no dim"),
    ],
)  # fmt: skip
def test_a_dim_that_cannot_be_bound_is_an_error_and_changes_nothing(dims, said):
    graph = gs.import_onnx(model("g (float[?, n] x, float[5, n] z) => (float[?, n] y) { y = Neg (x) }"))
    with pytest.raises(GraphValueError, match=said):
        graph.bind_dims({"n": 3, **dims})
    assert list(graph.inputs[0].shape) == [None, "n"]


def test_errors_about_dims_without_a_name_show_the_way_out():
    graph = gs.import_onnx(model("g (float[?, ?] x) => (float[?, ?] y) { y = Neg (x) }"))
    with pytest.raises(GraphValueError) as unknown:
        graph.bind_dims({"batch": 4})
    assert unknown.value.fix == "the inputs have no symbolic dims; dims without a name are bound by input and axis: x:0, x:1"
    with pytest.raises(GraphValueError) as free:
        graph.make_dynamic("x", 0, "batch")
    assert "--bind x:0=4" in free.value.fix
    assert "bind_dims({('x', 0): 4})" in free.value.fix


def test_there_and_back():
    text = "g (float[batch, 6] x) => (float[batch, 3, 2] y) <int64[2] c = {3, 2}, int64[1] z = {0}, int64[1] o = {1}> { s = Shape (x) n = Slice (s, z, o) t = Concat <axis = 0> (n, c) y = Reshape (x, t) }"
    graph = gs.import_onnx(model(text)).bind_dims({"batch": 2}).simplify()
    assert graph.nodes[0].inputs[1].values.tolist() == [2, 3, 2]
    assert not graph.make_dynamic("x", 0, "batch").declined
    assert list(graph.outputs[0].shape) == ["batch", 3, 2]


def test_an_output_of_unknown_shape_that_keeps_the_size_is_no_proof():
    sums = "g (float[2, 4] x) => (float[2, 4] y) <int64[2] t = {2, 4}> { s = ReduceSum <keepdims = 1> (x) y = Expand (s, t) }"
    graph = gs.import_onnx(model(sums))
    graph.outputs[0].shape = None
    assert "keeps the size 2" in graph.make_dynamic("x", 0, "batch").declined[0].reason


def test_indices_of_masks_are_computed_where_the_outputs_prove_it():
    text = """g (float[2, 3] x) => (float[2, 1, 3] y) <int64[2, 1, 3, 2] i = {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}> { y = GatherND (x, i) }"""
    graph = gs.import_onnx(model(text))
    assert not graph.make_dynamic("x", 0, "batch").declined
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    assert_same([x[:, None]], run(gs.export_onnx(graph), {"x": x}))
    first = text.replace("y = GatherND (x, i)", "g = GatherND (x, i) y = Transpose <perm = [1, 0, 2]> (g)").replace("float[2, 1, 3] y", "float[1, 2, 3] y")
    assert "would prove" in gs.import_onnx(model(first)).make_dynamic("x", 0, "batch").declined[0].reason


def test_an_axis_joins_the_heads_and_leaves_them_again():
    text = """g (float[1, 4, 6] x, float[6, 6] w) => (float[1, 4, 6] y) <int64[3] heads = {4, 2, 3}, int64[2] flat = {4, 6}, int64[3] back = {4, 1, 6}> {
        a = Transpose <perm = [1, 0, 2]> (x) b = Reshape (a, heads) c = Transpose <perm = [1, 0, 2]> (b) t = Transpose <perm = [0, 2, 1]> (c)
        s = MatMul (c, t) v = MatMul (s, c) d = Transpose <perm = [1, 0, 2]> (v) e = Reshape (d, flat) f = MatMul (e, w) h = Reshape (f, back)
        y = Transpose <perm = [1, 0, 2]> (h) }"""
    source = model(text)
    graph = gs.import_onnx(source)
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 4, 6)).astype(np.float32), rng.standard_normal((6, 6)).astype(np.float32)
    alone = np.concatenate([run(source, {"x": x[i : i + 1], "w": w})[0] for i in range(5)])
    assert np.allclose(run(gs.export_onnx(graph), {"x": x, "w": w})[0], alone, atol=1e-4)


def test_an_axis_that_is_not_fixed_is_an_error():
    graph = gs.import_onnx(model("g (float[n, 3] x) => (float[n, 3] y) { y = Neg (x) }"))
    with pytest.raises(GraphValueError, match="not fixed"):
        graph.make_dynamic("x", 0, "batch")
    with pytest.raises(GraphValueError, match="no input 'z'"):
        graph.make_dynamic("z", 0, "batch")


BODIES = {
    "branch": """g (float[2, 6] x, bool c) => (float[2, 3, 2] y) <int64[3] t = {2, 3, 2}> {
        y = If (c) <then_branch = a () => (float[2, 3, 2] p) { r = Reshape (x, t) p = Neg (r) }, else_branch = b () => (float[2, 3, 2] q) { q = Reshape (x, t) }> }""",
    "carried": """g (float[2, 4] x) => (float[2, 4] y) <int64 n = {3}, bool t = {1}, float[2, 4] h = {1, 2, 3, 4, 1, 2, 3, 4}> {
        y = Loop (n, t, h) <body = b (int64 i, bool c, float[2, 4] s) => (bool d, float[2, 4] u) { d = Identity (c) u = Add (s, x) }> }""",
    "inside": """g (float[2, 4] x) => (float[2, 4] y) <int64 n = {3}, bool t = {1}, int64[2] flat = {8, 1}, int64[2] back = {2, 4}> {
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[2, 4] s) => (bool d, float[2, 4] u) {
            d = Identity (c) r = Reshape (s, flat) e = Tanh (r) u = Reshape (e, back) }> }""",
    "scanned": """g (float[2, 4] x, float[5, 4] w) => (float[2, 4] y) <float[1] zero = {0}, int64[2] t = {2, 4}> {
        h = Expand (zero, t)
        y, z = Scan (h, w) <num_scan_inputs = 1, body = b (float[2, 4] s, float[4] v) => (float[2, 4] u, float[2, 4] o) {
            p = Mul (v, x) u = Add (s, p) o = Neg (u) }> }""",
    "nested": """g (float[2, 6] x, bool c) => (float[2, 6] y) <int64 n = {2}, bool t = {1}, int64[3] to = {2, 3, 2}, int64[2] back = {2, 6}> {
        y = If (c) <then_branch = a () => (float[2, 6] p) {
            p = Loop (n, t, x) <body = b (int64 i, bool k, float[2, 6] s) => (bool d, float[2, 6] u) {
                d = Identity (k) r = Reshape (s, to) e = Exp (r) u = Reshape (e, back) }> }, else_branch = b () => (float[2, 6] q) { q = Neg (x) }> }""",
}


@pytest.mark.parametrize("name", BODIES)
def test_constants_in_bodies_are_mended(name):
    source = model(BODIES[name])
    graph = gs.import_onnx(source)
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    assert graph.outputs[0].shape[0] == "batch"
    result = gs.export_onnx(graph)
    rng = np.random.default_rng(0)
    width = graph.inputs[0].shape[1]
    parts = [rng.standard_normal((2, width)).astype(np.float32) for _ in range(3)]
    for c in (True, False):
        known = {"c": np.array(c), "w": np.arange(20, dtype=np.float32).reshape(5, 4) / 8}
        others = {t.name: known[t.name] for t in graph.inputs[1:]}
        single = [run(source, {"x": part, **others})[0] for part in parts]
        assert_same([single[0]], run(result, {"x": parts[0], **others}))
        assert_same([np.concatenate(single)], run(result, {"x": np.concatenate(parts), **others}))


def test_a_carried_weight_whose_parts_differ_is_no_state_of_each():
    text = BODIES["carried"].replace("1, 2, 3, 4, 1, 2, 3, 4", "1, 2, 3, 4, 5, 6, 7, 8")
    report = gs.import_onnx(model(text)).make_dynamic("x", 0, "batch")
    assert "its parts differ" in report.declined[0].reason


def test_indices_that_count_through_a_merged_axis_are_computed():
    text = "g (int64[2, 3] x) => (int64[2, 1, 3] y) <int64[1] flat = {-1}, int64[2, 1, 3] i = {0, 1, 2, 3, 4, 5}> { f = Reshape (x, flat) y = Gather (f, i) }"
    graph = gs.import_onnx(model(text))
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined
    assert any("steps of 3" in entry.reason for entry in report.rewritten)
    for count in (1, 2, 5):
        x = np.arange(count * 3).reshape(count, 3)
        assert run(gs.export_onnx(graph), {"x": x})[0].tolist() == x.reshape(count, 1, 3).tolist()


def test_indices_that_do_not_count_stay_and_prove_nothing():
    text = "g (int64[2, 3] x) => (int64[2, 3] y) <int64[1] flat = {-1}, int64[2, 3] i = {0, 1, 2, 3, 5, 4}> { f = Reshape (x, flat) y = Gather (f, i) }"
    graph = gs.import_onnx(model(text))
    assert graph.make_dynamic("x", 0, "batch").declined
    assert list(graph.inputs[0].shape) == [2, 3]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_an_axis_that_was_merged_behind_another_is_found_again(batch):
    turned = f"""g (float[{batch}, 3, 4] x) => (float[{batch}, 3, 4] y) <int64[2] flat = {{{3 * batch}, 4}}, int64[3] back = {{3, {batch}, 4}}> {{
        a = Transpose <perm = [1, 0, 2]> (x) b = Reshape (a, flat) c = Tanh (b) d = Reshape (c, back) e = Transpose <perm = [1, 0, 2]> (d) y = Add (e, x) }}"""
    graph = gs.import_onnx(model(turned))
    report = graph.make_dynamic("x", 0, "batch")
    assert not report.declined, report.declined
    x = np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32)
    assert np.allclose(run(gs.export_onnx(graph), {"x": x})[0], np.tanh(x) + x, atol=1e-6)
