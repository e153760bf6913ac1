from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.trt import capability
from onnx_gs.trt.capability import ROWS
from onnx_gs.trt.readiness import check
from tests.support.rewrites import model, parse

RTX = "rtx-1.7"
CO = "co = Identity (ci)"


def ids(graph, target=RTX, **options):
    found = check(graph, target, static=True, **options)
    return [b.id for b in found.blockers], [w.id for w in found.warnings]


#: One model a row of the table: what ``check`` says of it without TensorRT.
CASES = {
    "sequence-op": "g (float[2] x) => (float[2] y) <int64 z = {0}> { s = SequenceConstruct (x) y = SequenceAt (s, z) }",
    "optional-op": "g (float[2] x) => (bool y) { o = Optional (x) y = OptionalHasElement (o) }",
    "interface-type": "g (seq(float[2]) s) => (int64 y) { y = SequenceLength (s) }",
    "if-rank": "g (float[6] x, bool p) => (float y) { v = If (p) <then_branch = t () => (float[6] a) { a = Neg (x) }, else_branch = e () => (float[1,6] b) "
    "{ k = Constant <value_ints = [0]> () b = Unsqueeze (x, k) }> y = ReduceSum <keepdims = 0> (v) }",
    "carried-shape": "g (float[1,2] x, int64 m) => (float[k,2] y) <bool c = {1}> { y = Loop <body = b (int64 i, bool ci, float[j,2] s) => (bool co, float[l,2] so) "
    f"{{ {CO} so = Concat <axis = 0> (s, x) }}> (m, c, x) }}",
    "slice-by-iteration": "g (float[4] x, int64 m) => (float[1] y) <bool c = {1}, float[1] w = {0}, int64[1] one = {1}> { y = Loop <body = b (int64 i, bool ci, float[1] s) "
    f"=> (bool co, float[1] so) {{ {CO} k = Reshape (i, one) e = Add (k, one) r = Slice (x, k, e) so = Add (s, r) }}> (m, c, w) }}",
    "if-size-in-loop": "g (float[4,2] x, int64 m, bool p) => (float[2,2] y) <bool c = {1}, float[2,2] w = {0,0,0,0}> { y = Loop <body = b (int64 i, bool ci, float[2,2] s) => "
    f"(bool co, float[2,2] so) {{ {CO} v = If (p) <then_branch = t () => (float[4,2] a) {{ a = Neg (x) }}, else_branch = e () => (float[2,2] d) {{ d = Abs (s) }}> "
    "r = ReduceSum <keepdims = 0> (v) so = Add (s, r) }> (m, c, w) }",
    "loop-no-count": 'g (float[2] x) => (float[2] y) <bool c = {1}> { y = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) '
    '{ f = Cast <to = 1> (i) so = Add (s, f) t = ReduceSum <keepdims = 0> (so) k = Constant <value_float = 9.0> () co = Less (t, k) }> ("", c, x) }',
    "loop-no-condition": 'g (float[2] x, int64 m) => (float[2] y) { y = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) '
    f'{{ {CO} so = Add (s, s) }}> (m, "", x) }}',
    "while-scan": 'g (float[2] x) => (float[2] y, float[k,2] z) <bool c = {1}> { y, z = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] r) '
    '{ so = Add (s, s) r = Identity (so) t = ReduceSum <keepdims = 0> (so) k = Constant <value_float = 9.0> () co = Less (t, k) }> ("", c, x) }',
    "size-input-type": "g (float[2,3] x, float s) => (float[a,b] y) { i = Cast <to = 7> (s) k = Constant <value_ints = [1]> () r = Reshape (i, k) t = Concat <axis = 0> (r, k) "
    "y = Tile (x, t) }",
    "scan-no-state": "g (float[3,2] x) => (float[3,2] y) { y = Scan <num_scan_inputs = 1, body = b (float[2] r) => (float[2] o) { o = Neg (r) }> (x) }",
    "scan-negative-axis": "g (float[2] s, float[2,3] x) => (float[2] t) { t = Scan <num_scan_inputs = 1, scan_input_axes = [-1], body = b (float[2] a, float[2] r) => (float[2] c) "
    "{ c = Add (a, r) }> (s, x) }",
    "reduce-axes": "g (float[2,3] x, int64[1] a) => (float[m,n] y) { y = ReduceSum (x, a) }",
    "constant-operand": "g (float[2,3] x, int32 a) => (float[2,3] y) { y = CumSum (x, a) }",
    "unsupported-op": "g (float[2,2] x) => (float y) { y = Det (x) }",
    "function-op": "g (float[2,3] x, int64[2] t) => (float l) { l = NegativeLogLikelihoodLoss (x, t) }",
    "data-dependent-op": "g (float[2,3] x) => (int64[2,n] y) { y = NonZero (x) }",
    "int8-number": "g (int64[2] i) => (float[2] y) <int8[3] w = {1,2,3}> { r = Gather (w, i) y = Cast <to = 1> (r) }",
    "uint8-inside": "g (uint8[2] x) => (uint8[2] y) { y = Add (x, x) }",
    "interface-dtype": "g (int16[2] x) => (float[2] y) { y = Cast <to = 1> (x) }",
    "dtype": "g (float[2] x) => (float[2] y) { h = Cast <to = 5> (x) y = Cast <to = 1> (h) }",
    "quantized-type-use": "g (float[2] x) => (float[2] y) { h = Cast <to = 17> (x) y = Cast <to = 1> (h) }",
    "zero-point": "g (float[2] x) => (float[2] y) <float s = {0.5}, uint8 z = {128}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
    "int32-dequantize": "g (float[2] x) => (float[2] y) <float s = {0.5}, int32[2] w = {1, 2}> { b = DequantizeLinear (w, s) y = Add (x, b) }",
    "extra-outputs": "g (float[1,1,4,4] x) => (float[1,1,3,3] y) { y, i = MaxPool <kernel_shape = [2,2]> (x) }",
    "argmax-1d": "g (float[4] x) => (int64[1] y) { y = ArgMax <axis = 0> (x) }",
    "op-dtype": "g (int32[2] x) => (int32[2] y) { y = Relu (x) }",
    "scatter-reduction": 'g (float[4] x, float[1] u) => (float[4] y) <int64[1,1] i = {2}> { y = ScatterND <reduction = "add"> (x, i, u) }',
    "split-parts": "g (float[5] x) => (float[2] a, float[2] b, float[1] c, float[n] d) { a, b, c, d = Split <num_outputs = 4> (x) }",
    "training-mode": "g (float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1,1}, float[2] b = {0,0}> { y, m, v = BatchNormalization <training_mode = 1> (x, s, b, b, s) }",
    "dead-node": "g (float[2,2] x) => (float[2,2] y) { d = Det (x) y = Neg (x) }",
    "constant-form": 'g (float[2] x) => (string s, float[2] y) { s = Constant <value_string = "a"> () y = Neg (x) }',
    "rank-limit": "g (float[1,1,1,1,1,1,1,2] x) => (float[1,1,1,1,1,1,1,1,2] y) <int64[1] a = {0}> { y = Unsqueeze (x, a) }",
    "topk-limit": "g (float[5000] x) => (float[4000] y, int64[4000] i) <int64[1] k = {4000}> { y, i = TopK (x, k) }",
    "attribute": "g (float[1,1,4,4] x) => (float[1,1,2,2] y) { y = MaxPool <kernel_shape = [2,2], dilations = [2,2]> (x) }",
    "attention-kernel": "g (float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v) => (float[1,2,4,8] y) { y = Attention (q, k, v) }",
    "attention-form": "g (float16[1,2,4,64] q, float16[1,2,4,64] k, float16[1,2,4,64] v) => (float16[1,2,4,64] y) { y = Attention <softcap = 2.0> (q, k, v) }",
    "operand-rank": "g (float[3] a, float[2,3,4] b) => (float[2,4] y) { y = MatMul (a, b) }",
}  # fmt: skip


@pytest.mark.parametrize("row", CASES)
def test_a_row_is_found_without_tensorrt(row):
    opset = 23 if row.startswith("attention") else 18
    found = check(parse(CASES[row], opset=opset), RTX, static=True)
    blockers = [b for b in found.blockers if b.id == row]
    assert blockers, str(found)
    assert blockers[0].title == ROWS[row].title
    assert blockers[0].remedy
    assert blockers[0].reason
    assert blockers[0].path.startswith("graph 'g'")
    assert not found.ready


@pytest.mark.parametrize("row", CASES)
def test_the_library_agrees_with_the_table(row):
    pytest.importorskip("tensorrt_rtx")
    opset = 23 if row.startswith("attention") else 18
    if row == "extra-outputs":
        pytest.skip("an unused name is dropped while the text is read")
    found = check(parse(CASES[row], opset=opset), RTX)
    assert not found.ready
    assert "refused" not in [b.id for b in found.blockers]
    assert any(b.id == row for b in found.blockers), str(found)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            "padded-scan",
            (
                "g (float[2] x, int64 m) => (float[2] y, float[k,2] z) <bool c = {1}, float ten = {10}> { y, z = Loop <body = b (int64 i, bool ci, float[2] s) => "
                "(bool co, float[2] so, float[2] r) { so = Add (s, s) r = Identity (so) t = ReduceSum <keepdims = 0> (so) co = Less (t, ten) }> (m, c, x) }"
            ),
        ),
        ("double-binding", "g (double[2] x) => (double[2] y) { y = Neg (x) }"),
        ("quantize-default-type", "g (float[2] x) => (float[2] y) <float s = {0.5}> { q = QuantizeLinear (x, s) y = DequantizeLinear (q, s) }"),
        ("random-seed", "g (float[2] x) => (float[2] y) { r = RandomNormal <shape = [2], seed = 1.0> () y = Add (x, r) }"),
        (
            "loop-memory",
            f"g (float[n,w] x, int64 m) => (float[n,w] y) <bool c = {{1}}> {{ y = Loop <body = b (int64 i, bool ci, float[n,w] s) => (bool co, float[n,w] so) {{ {CO} so = Add (s, x) }}> (m, c, x) }}",
        ),
    ],
)
def test_what_builds_but_is_not_what_onnx_says(row, text):
    blockers, warnings = ids(parse(text))
    assert row in warnings
    assert not blockers


def test_an_input_of_unknown_rank_is_a_warning():
    x, y = gs.Variable("x", np.float32), gs.Variable("y", np.float32)
    assert "unknown-rank" in ids(gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y], opset=18))[1]


def test_paths_go_through_bodies_and_functions():
    text = "g (float[2,2] x, bool p) => (float y) { y = local.f (x, p) }"
    functions = """<opset_import: ["" : 18], domain: "local"> f (x, p) => (y) {
        y = If (p) <then_branch = t () => (float a) { a = Det (x) }, else_branch = e () => (float b) { b = ReduceSum <keepdims = 0> (x) }> }"""
    (found,) = [b for b in check(parse(text, functions=functions), RTX, static=True).blockers if b.id == "unsupported-op"]
    assert found.path == "function 'local::f' > node #0 (If) > then_branch > node #0 (Det)"
    assert found.op == "Det"


def test_folding_is_the_remedy_for_constants():
    (found,) = check(
        parse("g (float[2] x) => (float y) <float[2,2] w = {1,2,3,4}> { d = Det (w) s = ReduceSum <keepdims = 0> (x) y = Add (d, s) }"),
        RTX,
        static=True,
    ).blockers
    assert (found.id, found.passes) == ("unsupported-op", ("fold-constants",))


@pytest.mark.parametrize(
    ("made", "blocks"),
    [("k = Identity (one)", False), ("k = Cast <to = 7> (i)", False), ("k = Add (one, zero)", True), ("k = Reshape (one, one)", True)],
)
def test_axes_of_a_reduction_are_taken_from_weights_only(made, blocks):
    text = f"g (float[2,3] x) => (float[a,b] y) <int64[1] one = {{1}}, int64[1] zero = {{0}}, int32[1] i = {{1}}> {{ {made} y = ReduceSum (x, k) }}"
    blockers, _ = ids(parse(text))
    assert blockers == (["reduce-axes"] if blocks else [])
    pytest.importorskip("tensorrt_rtx")
    assert check(parse(text)).ready is not blocks


def test_what_is_decided_by_shapes_is_no_blocker():
    text = """g (float[n,6] x) => (float[n,6] y) <int64 one = {1}, int64 six = {6}> {
        s = Shape <start = 1> (x) k = Squeeze (s) c = Equal (k, six)
        y = If (c) <then_branch = t () => (float[n,6] a) { a = Neg (x) }, else_branch = e () => (float[6] b) { b = ReduceSum <keepdims = 0> (x) }> }"""
    assert "if-rank" not in ids(parse(text))[0]


@pytest.mark.parametrize(
    ("target", "text", "row"),
    [
        ("tensorrt-10.10", "if-shape", "if-shape"),
        ("tensorrt-11.4", "if-shape", None),
        ("tensorrt-8.6", "int-loop", "loop-dtype"),
        ("tensorrt-10.3", "int-loop", None),
        ("tensorrt-8.6", "bool", "bool-constant"),
        ("tensorrt-10.3", "nonzero", None),
        ("rtx-1.7", "nonzero", "data-dependent-op"),
    ],
)
def test_rules_differ_by_version(target, text, row):
    texts = {
        "if-shape": "g (float[2] x, float[3] z, bool p) => (float[n] y) { y = If (p) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Abs (z) }> }",
        "int-loop": f"g (int64 x, int64 m) => (int64 y) <bool c = {{1}}> {{ y = Loop <body = b (int64 i, bool ci, int64 s) => (bool co, int64 so) {{ {CO} so = Add (s, s) }}> (m, c, x) }}",
        "bool": "g (bool[2] x) => (bool[2] y) <bool[2] w = {1, 0}> { y = And (x, w) }",
        "nonzero": "g (float[2] x) => (int64[1,n] y) { y = NonZero (x) }",
    }
    blockers, _ = ids(parse(texts[text]), target)
    assert (row in blockers) if row else not blockers


def test_what_was_not_checked_is_said():
    graph = parse("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    assert any("static" in note for note in check(graph, RTX, static=True).notes)
    assert check(graph, RTX, static=True).checked_by == ["table"]
    pytest.importorskip("tensorrt_rtx")
    assert any("not asked" in note for note in check(graph, "tensorrt-10.3").notes)
    assert check(graph).checked_by == ["table", "parser", "builder"]
    assert check(graph, build=False).checked_by == ["table", "parser"]


def test_guessed_ranges_are_said():
    pytest.importorskip("tensorrt_rtx")
    graph = parse("g (float[n] x) => (float[n] y) { y = Neg (x) }")
    assert any("no range was given for n" in note for note in check(graph).notes)
    assert not any("no range" in note for note in check(graph, dims={"n": (1, 2, 3)}).notes)


def test_what_the_library_takes_is_no_blocker():
    pytest.importorskip("tensorrt_rtx")
    graph = parse("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    object.__setattr__(graph, "opset", 6)  # the table would say old-opset for Add only
    assert check(graph).ready


def test_models_come_in_every_form(tmp_path):
    proto = model("g (float[2,2] x) => (float y) { y = Det (x) }")
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for given in (proto, path, str(path), proto.SerializeToString()):
        assert [b.id for b in check(given, RTX, static=True).blockers] == ["unsupported-op"]


@pytest.mark.parametrize("target", [RTX, "tensorrt-11.4", "tensorrt-8.6"])
@pytest.mark.parametrize(
    ("op", "opset", "reason", "remedy"),
    [
        ("Rleu", 11, "ONNX has no operator 'Rleu'", "did you mean 'Relu'?"),
        ("Rleu", 20, "ONNX has no operator 'Rleu'", "did you mean 'Relu'?"),
        ("relu", 17, "ONNX has no operator 'relu'", "did you mean 'Relu'?"),
        ("Gelu", 13, "Gelu came with version 20 of ONNX's operators, and the model imports 13", "import version 20 or later"),
        ("Mish", 17, "Mish came with version 18 of ONNX's operators, and the model imports 17", "import version 18 or later"),
        ("Frobnicate", 999, "'Frobnicate' is unknown to the installed onnx", "plugin"),
    ],
)
def test_an_operator_that_onnx_does_not_have_blocks(op, opset, reason, remedy, target, tmp_path):
    def made(count, domain=None):
        tensors = [gs.Variable(f"t{k}", np.float32, (2,)) for k in range(count + 1)]
        nodes = [gs.Node(op if k == count - 1 else "Neg", inputs=[a], outputs=[b]) for k, (a, b) in enumerate(pairwise(tensors))]
        nodes[-1].domain = domain
        return gs.Graph(nodes, [tensors[0]], [tensors[-1]], opset=opset)

    for graph in (made(1), made(3), made(2, "ai.onnx")):
        path = tmp_path / "model.onnx"
        path.write_bytes(gs.export_onnx(graph).SerializeToString())
        for given in (graph, path):  # the graph, and the look at a message that may need none
            found = check(given, target, static=True).blockers
            assert [b.id for b in found] == ["unknown-op"]
            assert found[0].reason.startswith(reason)
            assert remedy in found[0].remedy
    prepared = made(3)
    assert [b.id for b in gs.trt.prepare(prepared, target).shared["readiness"].blockers] == ["unknown-op"]


def test_operators_that_onnx_does_not_have_in_bodies_and_functions():
    inside = parse(
        "g (float[2] x, bool p) => (float[2] y) { y = If (p) <then_branch = t () => (float[2] a) { a = Rleu (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }> }"
    )
    found = check(inside, RTX, static=True).blockers
    assert [b.id for b in found] == ["unknown-op"]
    assert "then_branch" in found[0].path
    called = parse("g (float[2] x) => (float[2] y) { y = f.f (x) }", functions='<domain: "f", opset_import: ["" : 13]> f (a) => (b) { b = Gelu (a) }')
    assert [(b.id, b.op) for b in check(called, RTX, static=True).blockers] == [("unknown-op", "Gelu")]


def test_operators_that_the_parser_has_under_onnx_own_domain_do_not_block():
    graph = parse("g (float[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization (x, s) }", opset=13)
    assert check(graph, RTX, static=True).ready


def test_the_model_is_not_changed():
    graph = parse(CASES["carried-shape"])
    before = gs.export_onnx(graph).SerializeToString()
    check(graph, RTX, static=True)
    assert gs.export_onnx(graph).SerializeToString() == before


def test_the_result_is_plain_data():
    import json

    plain = json.loads(json.dumps(check(parse(CASES["if-rank"]), RTX, static=True).as_dict()))
    assert {"id", "title", "path", "tensor", "reason", "remedy"} <= set(plain["blockers"][0])
    assert plain["ready"] is False


def test_every_row_is_told_by_a_case_or_a_message():
    named = {row for _, row in capability.MESSAGES} | set(CASES)
    assert {row.id for row in ROWS.values() if row.blocks} - named <= {
        "sequence-state",
        "if-shape",
        "loop-dtype",
        "bool-constant",
        "refused",
        "size-from-data",
        "function-missing-input",
    }
