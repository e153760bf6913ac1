from __future__ import annotations

import numpy as np
import onnx

import onnx_gs as gs
from onnx_gs.ir import verify
from onnx_gs.passes.inline_functions import InlineFunctions
from tests.support.rewrites import assert_rewrites, assert_same, model, run

HEAD = '<domain: "local", opset_import: ["" : 18]>'
TWICE = f"{HEAD} Twice (a) => (b) {{ b = Add (a, a) }}"
SCALED = f"{HEAD} Scaled <alpha: float = 2.0, beta> (a) => (b) {{ f = Constant <value_float: float = @alpha> ()  h = Constant <value_float: float = @beta> ()  g = Mul (a, f)  b = Add (g, h) }}"
MAYBE = f"{HEAD} Maybe (a, lo, hi) => (b) {{ b = Clip (a, lo, hi) }}"


def test_a_call_becomes_the_body_and_the_function_goes():
    assert_rewrites(
        InlineFunctions(),
        before="g (float[2] x) => (float[2] y) { h = local.Twice (x)  y = local.Twice (h) }",
        after="g (float[2] x) => (float[2] y) { h = Add (x, x)  y = Add (h, h) }",
        functions=TWICE,
    )


def test_attributes_come_from_the_call_or_the_default():
    assert_rewrites(
        InlineFunctions(),
        before="g (float[2] x) => (float[2] y, float[2] z) { y = local.Scaled <beta = 3.0> (x)  z = local.Scaled <alpha = 4.0, beta = 5.0> (x) }",
        after="""g (float[2] x) => (float[2] y, float[2] z) {
            f = Constant <value_float = 2.0> ()  h = Constant <value_float = 3.0> ()  g1 = Mul (x, f)  y = Add (g1, h)
            f2 = Constant <value_float = 4.0> ()  h2 = Constant <value_float = 5.0> ()  g2 = Mul (x, f2)  z = Add (g2, h2) }""",
        functions=SCALED,
    )


def test_a_missing_optional_input_is_missing_inside():
    assert_rewrites(
        InlineFunctions(where_needed=True),
        before="g (float[2] x) => (float[2] y) <float hi = {1.0}> { y = local.Maybe (x, , hi) }",
        after="g (float[2] x) => (float[2] y) <float hi = {1.0}> { y = Clip (x, , hi) }",
        functions=MAYBE,
    )


def test_only_where_needed():
    source = model("g (float[2] x) => (float[2] y) <float hi = {1.0}> { h = local.Twice (x)  y = local.Maybe (h) }", functions=f"{TWICE} {MAYBE}")
    graph = gs.import_onnx(source)
    InlineFunctions(where_needed=True)(graph)
    assert [n.op for n in graph.nodes] == ["Twice", "Clip"]
    assert [f.name for f in graph.functions] == ["Twice"]
    graph = gs.import_onnx(source)
    InlineFunctions(where_needed=True, ops=("Add",))(graph)
    assert [n.op for n in graph.nodes] == ["Add", "Clip"]


def test_by_name():
    source = model("g (float[2] x) => (float[2] y) { h = local.Twice (x)  y = local.Scaled <beta = 1.0> (h) }", functions=f"{TWICE} {SCALED}")
    for name in ("Twice", "local::Twice"):
        graph = gs.import_onnx(source)
        InlineFunctions(names=(name,))(graph)
        assert [n.op for n in graph.nodes] == ["Add", "Scaled"]
        assert [f.name for f in graph.functions] == ["Scaled"]


def test_nested_calls_also_in_bodies_and_in_functions_that_stay():
    functions = f"""{TWICE}
        {HEAD} Four (a) => (b) {{ h = local.Twice (a)  b = local.Twice (h) }}""".replace('["" : 18]> Four', '["" : 18, "local" : 1]> Four')
    text = """g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] p) { p = local.Four (x) }, else_branch = e () => (float[2] q) { q = local.Twice (x) }> }"""
    source = model(text, functions=functions)
    graph = gs.import_onnx(source)
    InlineFunctions(names=("Twice",))(graph)
    assert [f.name for f in graph.functions] == ["Four"]
    assert [n.op for n in graph.functions[0].nodes] == ["Add", "Add"]
    graph = gs.import_onnx(source)
    InlineFunctions()(graph)
    assert not graph.functions
    assert not verify.problems(graph)
    for c in (True, False):
        feeds = {"x": np.float32([1, 2]), "c": np.bool_(c)}
        assert_same(run(source, feeds), run(gs.export_onnx(graph), feeds))


def test_a_function_with_a_loop_and_names_of_the_model():
    functions = f"""{HEAD} Power (x, n) => (y) {{ c = Constant <value_int = 1> ()  t = Cast <to = 9> (c)  one = CastLike (c, x)
        y = Loop (n, t, one) <body = b (int64 i, bool ci, s) => (bool co, h) {{ co = Identity (ci)  h = Mul (s, x) }}> }}"""
    source = model("g (float x, int64 m) => (float y, float h) { h = local.Power (x, m)  y = local.Power (h, m) }", functions=functions)
    graph = gs.import_onnx(source)
    InlineFunctions()(graph)
    assert not verify.problems(graph)
    for m in (0, 1, 3):
        feeds = {"x": np.float32(2), "m": np.int64(m)}
        assert_same(run(source, feeds), run(gs.export_onnx(graph), feeds))


def test_an_operator_that_means_something_else_is_declined():
    functions = '<domain: "local", opset_import: ["" : 12]> Sums (a) => (b) { b = ReduceSum <axes = [0]> (a) }'
    graph = gs.import_onnx(model("g (float[2] x) => (float[1] y) { y = local.Sums (x) }", functions=functions))
    report = InlineFunctions()(graph)
    assert [n.op for n in graph.nodes] == ["Sums"]
    assert "uses ai.onnx::ReduceSum of version 12, the model imports version 18" in report.declined[0].reason


def test_an_operator_that_means_the_same_is_inlined():
    functions = '<domain: "local", opset_import: ["" : 14]> Sums (a) => (b) { b = Add (a, a) }'
    graph = gs.import_onnx(model("g (float[2] x) => (float[2] y) { y = local.Sums (x) }", functions=functions))
    assert InlineFunctions()(graph).rewritten
    assert graph.opset == 18


def test_domains_that_the_function_imports_are_imported():
    functions = '<domain: "local", opset_import: ["" : 18, "other" : 3]> Wrap (a) => (b) { b = other.Op (a) }'
    graph = gs.import_onnx(model("g (float[2] x) => (float[2] y) { y = local.Wrap (x) }", functions=functions))
    InlineFunctions()(graph)
    assert {(e.domain, e.version) for e in gs.export_onnx(graph).opset_import} >= {("", 18), ("other", 3)}


def test_overloads_are_told_apart():
    proto = model("g (float[2] x) => (float[2] y) { h = local.F (x)  y = local.F (h) }", functions=TWICE.replace("Twice", "F"), ir_version=10)
    other = onnx.FunctionProto()
    other.CopyFrom(proto.functions[0])
    other.overload = "neg"
    other.node[0].CopyFrom(onnx.helper.make_node("Neg", ["a"], ["b"]))
    proto.functions.append(other)
    proto.graph.node[1].overload = "neg"
    graph = gs.import_onnx(proto)
    InlineFunctions()(graph)
    assert [n.op for n in graph.nodes] == ["Add", "Neg"]


def test_an_input_that_is_returned():
    functions = f"{HEAD} Both (a) => (c, b) {{ b = Neg (a)  c = Identity (a) }}"
    assert_rewrites(
        InlineFunctions(),
        before="g (float[2] x) => (float[2] y, float[2] z) { y, z = local.Both (x) }",
        after="g (float[2] x) => (float[2] y, float[2] z) { z = Neg (x)  y = Identity (x) }",
        functions=functions,
    )


def test_many_calls_are_linear():
    lines = " ".join(f"t{k + 1} = local.Twice (t{k})" for k in range(3000))
    graph = gs.import_onnx(model(f"g (float[2] t0) => (float[2] t3000) {{ {lines} }}", functions=TWICE))
    InlineFunctions()(graph)
    assert len(graph.nodes) == 3000
    assert {n.op for n in graph.nodes} == {"Add"}
