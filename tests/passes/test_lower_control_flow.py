from __future__ import annotations

import random
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import onnx_gs as gs
from onnx_gs.analysis.loops import LoopParts
from onnx_gs.errors import VerificationError
from onnx_gs.ir import verify
from onnx_gs.passes import unroll_loop
from onnx_gs.passes.base import Pass
from onnx_gs.passes.lower_control_flow import LowerControlFlow, _measure, left_by_op
from onnx_gs.passes.unroll_loop import UnrollLoop
from tests.support.programs import Program
from tests.support.rewrites import assert_equal_outputs, assert_rewrites, assert_same, model, parse, run


def lowered(text: str, *feeds: dict, opset: int = 18, **options) -> tuple[gs.Graph, object]:
    """Lower a text, check that outputs are equal, and give the graph and the report."""
    kept = []

    @dataclass(frozen=True)
    class Keep(Pass):
        def run(self, graph, report):
            LowerControlFlow(**options).apply(graph, report)
            kept.append(graph)

    report = assert_equal_outputs(Keep(), text, *feeds, opset=opset)
    return kept[0], report


def ops(graph: gs.Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def test_an_if_in_a_loop_is_decided_trip_by_trip():
    assert_rewrites(
        LowerControlFlow(),
        before="""g (float[1,2] x) => (float[N,2] y) <int64 m = {3}, bool c = {1}, int64 z = {0}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[K,2] s) => (bool co, float[L,2] so) {
                co = Identity (ci)  e = Equal (i, z)
                so = If (e) <then_branch = t () => (float[1,2] t1) { t1 = Relu (x) }, else_branch = f () => (float[R,2] t2) { t2 = Concat <axis = 0> (s, x) }>
            }> }""",
        after="""g (float[1,2] x) => (float[N,2] y) { a = Relu (x)  b = Concat <axis = 0> (a, x)  y = Concat <axis = 0> (b, x) }""",
    )


def test_a_list_appended_under_a_dynamic_trip_count():
    graph, report = lowered(
        """g (float[N,2] x) => (float[K,2] y) <bool c = {1}, int64 z0 = {0}, float[0,2] e0 = {}> {
            sh = Shape (x)  m = Gather <axis = 0> (sh, z0)
            y = Loop (m, c, e0) <body = b (int64 i, bool ci, float[K1,2] s) => (bool co, float[L1,2] so) {
                co = Identity (ci)  i1 = Constant <value_ints = [0]> ()  r = Gather <axis = 0> (x, i)  u = Unsqueeze (r, i1)  v = Relu (u)
                so = Concat <axis = 0> (s, v) }> }""",
        *({"x": np.full((n, 2), -1, np.float32)} for n in (0, 1, 4)),
    )
    assert not report.left
    assert "Loop" not in ops(graph)


def test_greedy_decoding_gets_a_bound_a_counter_and_a_slice():
    text = """g (float[1,4] h) => (int64[N] seq, float[1,4] last) <int64[1] start = {0}, int64 endless = {9223372036854775807}, int64 zero = {0},
            bool yes = {1}, bool no = {0}, int64 one = {1}, int64 twelve = {12}, int64 stop = {2}, float[4,4] w = {0.5,-1,2,0.25,1,-0.5,0.75,-2,0.1,0.2,-0.3,0.4,1,1,-1,-1}> {
        seq, last, n = Loop (endless, yes, start, h, zero) <body = b (int64 i, bool ci, int64[K] s, float[1,4] g, int64 j) =>
                (bool co, int64[L] so, float[1,4] go, int64 jo) {
            p = MatMul (g, w)  go = Tanh (p)  tok = ArgMax <axis = -1, keepdims = 0> (go)  so = Concat <axis = 0> (s, tok)  jo = Add (j, one)
            e = Equal (tok, stop)  ec = Cast <to = 7> (e)  es = ReduceMax <keepdims = 0> (ec)  found = Greater (es, zero)
            short = Less (jo, twelve)
            co = If (short) <then_branch = t () => (bool a) { a = Not (found) }, else_branch = f () => (bool b) { b = Identity (no) }> }> }"""
    rng = np.random.default_rng(3)
    graph, report = lowered(text, *({"h": rng.standard_normal((1, 4)).astype("f")} for _ in range(6)))
    loop = next(n for n in graph.nodes if n.op == "Loop")
    assert left_by_op(report.left) == {"Loop": 1}
    assert loop.inputs[0].values == 12
    assert len(loop.outputs) == len(loop.attrs["body"].outputs) - 1
    assert "Slice" in ops(graph)
    assert "the condition is computed at run time (at most 12 trips)" in report.left[0].reason


def test_what_is_left_says_why_and_where():
    _, report = lowered(
        """g (float[1,6] x, bool c) => (float y) <int64[1] ax = {0}> {
            [squeeze] y = If (c) <then_branch = a () => (float[6] t) { t = Squeeze (x, ax) }, else_branch = b () => (float[1,6] e) { e = Identity (x) }> }""",
        {"x": np.ones((1, 6), np.float32), "c": np.array(True)},
    )
    assert [e.path for e in report.left] == ["graph 'g' > node 'squeeze' (If)"]
    assert "'c' decides" in report.left[0].reason


def test_statements_of_the_caller():
    text = """g (float[N,2] x, int64 k) => (float[2] y) <bool c = {1}, int64 z = {0}, float[2] s0 = {0, 0}> {
        sh = Shape (x)  n = Gather (sh, z)  m = Add (n, k)
        y = Loop (m, c, s0) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity (ci)  r = Gather (x, z)  v = Sin (s)  so = Add (v, r) }> }"""
    pytest.importorskip("onnx_gs.passes.bind_dims")
    graph = parse(text)
    report = LowerControlFlow(bind={"N": 2}, freeze={"k": 1})(graph)
    assert not report.left
    assert ops(graph).count("Sin") == 2  # that of the first trip, of zeros, is a constant
    assert [t.name for t in graph.inputs] == ["x"]
    feeds = {"x": np.ones((2, 2), np.float32), "k": np.array(1)}
    assert_same(run(model(text), feeds), run(gs.export_onnx(graph), feeds))


def test_a_wrong_declaration_of_a_growing_value_is_not_believed():
    text = """g (float[1] x, int64 m) => (float[N] y, int64[1] n) <bool c = {1}, float[0] none = {}, int64[1] zero = {0}> {
        y, n = Loop (m, c, none, zero) <body = b (int64 i, bool ci, float[0] s, int64[1] k) => (bool co, float[1] so, int64[1] ko) {
            co = Identity (ci)  sh = Shape (s)  ko = Add (k, sh)  so = Concat <axis = 0> (s, x) }> }"""
    for options in ({}, {"max_nodes": 0}):
        graph = parse(text)
        report = LowerControlFlow(**options)(graph)
        assert "cannot be right" in report.warnings[0]
        for m in (0, 1, 4):
            feeds = {"x": np.float32([2]), "m": np.array(m)}
            assert_same(run(model(text), feeds), run(gs.export_onnx(graph), feeds))


def test_verification_names_the_pass_that_changed_an_output(monkeypatch):
    text = """g (float[2] x) => (float[2] y) <int64 m = {3}, bool c = {1}> {
        y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity (ci)  v = Sin (s)  so = Add (v, x) }> }"""
    LowerControlFlow(verify=True)(parse(text))

    def one_less(self, editor, owner, node, report):
        report.rewrote(owner, node)
        unroll_loop.unroll(editor, owner, LoopParts(node), 2)

    monkeypatch.setattr(UnrollLoop, "_unroll", one_less)
    with pytest.raises(VerificationError, match="unroll-loop"):
        LowerControlFlow(verify=True)(parse(text))


def test_functions_are_lowered_too():
    functions = """<domain: "local", opset_import: ["" : 18]> twice (x) => (y) {
        m = Constant <value_int = 2> ()
        y = Loop (m, "", x) <body = b (int64 i, bool ci, s) => (bool co, so) { co = Identity (ci)  so = Add (s, s) }> }"""
    report = assert_equal_outputs(LowerControlFlow(), "g (float[2] x) => (float[2] y) { y = local.twice (x) }", functions=functions)
    assert not report.left


def test_a_model_without_control_flow_is_left_alone():
    graph = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { v = Add (w, w)  y = Add (x, v) }")
    assert not LowerControlFlow()(graph).rewritten
    assert ops(graph) == ["Add", "Add"]


def test_weights_are_not_copied():
    graph, _ = lowered(
        """g (float[1,2] x) => (float[1,2] y) <int64 m = {5}, bool c = {1}, float[2,2] w = {0.1,0.2,0.3,0.4}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[1,2] s) => (bool co, float[1,2] so) { co = Identity (ci)  so = MatMul (s, w) }> }"""
    )
    assert ops(graph) == ["MatMul"] * 5
    assert len({id(n.inputs[1]) for n in graph.nodes}) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 2**32), st.sampled_from([0, 20, 200, 2000]), st.sampled_from([0, 12]), st.booleans(), st.booleans(), st.booleans())
def test_programs_keep_their_outputs(seed, max_nodes, where, unroll, mask, static):
    rng = random.Random(seed)
    opset = rng.choice([9, 11, 13, 17, 18, 20, 21])
    source = model(Program(rng, depth=rng.choice([1, 2, 2, 3]), size=rng.choice([2, 3, 4]), opset=opset).text(), opset)
    if static:
        next(i for i in source.graph.input if i.name == "q").type.tensor_type.shape.dim[0].dim_value = 3
    graph = gs.import_onnx(source)
    before = _measure(graph)
    LowerControlFlow(max_nodes=max_nodes, where=where, unroll=unroll, mask=mask)(graph)
    assert not verify.problems(graph)
    after = _measure(graph)
    assert after[0] <= before[0]
    LowerControlFlow(max_nodes=max_nodes, where=where, unroll=unroll, mask=mask)(graph)
    assert _measure(graph) == after  # a second time finds nothing more to do
    result = gs.export_onnx(graph)
    values = np.random.default_rng(seed)
    for k, m in enumerate([0, 1, 3]):
        feeds = {
            "x": values.standard_normal(2).astype("f"), "w": values.standard_normal(2).astype("f"), "c": np.array(bool((seed >> k) & 1)),
            "q": values.standard_normal((3 if static else k + 1, 2)).astype("f"), "m": np.array(m),
        }  # fmt: skip
        assert_same(run(source, feeds), run(result, feeds))


def _loop(trips: int) -> gs.Graph:
    body = " ".join(f"t{k} = Add ({'s' if k == 0 else f't{k - 1}'}, x)" for k in range(99))
    return parse(f"""g (float[2] x) => (float[2] y) <int64 m = {{{trips}}}, bool c = {{1}}> {{
        y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool co = {{1}}> {{ {body} so = Tanh (t98) }}> }}""")


def test_a_thousand_trips_of_a_hundred_nodes():
    graph = _loop(1000)
    started = time.process_time()
    UnrollLoop(max_nodes=100_000)(graph)
    assert time.process_time() - started < 5
    assert len(graph.nodes) == 100_000


def _ifs(count: int) -> gs.Graph:
    lines = [
        f"v{k + 1} = If (c) <then_branch = a{k} () => (float[2,2] p) {{ q = MatMul (v{k}, w)  p = Relu (q) }}, else_branch = b{k} () => (float[2,2] r) {{ r = Abs (v{k}) }}>"
        for k in range(count)
    ]
    return parse(f"g (float[2,2] v0, bool c) => (float[2,2] y) <float[2,2] w = {{1, 2, 3, 4}}> {{ {' '.join(lines)} y = Identity (v{count}) }}")


def test_twice_the_ifs_take_about_twice_the_time():
    seconds = []
    for count in (250, 500):
        graph = _ifs(count)
        started = time.process_time()
        report = LowerControlFlow()(graph)
        seconds.append(time.process_time() - started)
        assert len(report.left) == count
    assert seconds[1] < 3 * seconds[0] + 0.5
