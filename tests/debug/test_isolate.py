"""Parts cut out of a model compute what the whole model computes there."""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug.capture import capture, record_part, save_test_data
from onnx_gs.debug.isolate import isolate
from onnx_gs.errors import GraphValueError
from onnx_gs.evaluate import onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.ir import walk
from onnx_gs.ir.verify import problems

TEXT = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[N, 2] x, int64 n, bool c) => (float[N, 2] y, float[k, N, 2] s) <float[2] w = {1.0, 2.0}> {
  true = Constant<value = bool {1}>()
  e = Exp(x)
  f = local.f(e)
  y, s = Loop(n, true, f) <body = b (int64 i, bool ci, float[N, 2] h) => (bool co, float[N, 2] h2, float[N, 2] so) {
     co = Identity(ci)
     m = Mul(h, w)
     d = If(c) <then_branch = t () => (float[N, 2] a) { aa = Neg(m)  a = Abs(aa) }, else_branch = u () => (float[N, 2] b2) { b2 = Sqrt(m) }>
     h2 = Add(d, e)
     so = Identity(h2)
  }>
}
<domain: "local", opset_import: ["" : 18]>
f (p) => (q) { r = Abs(p)  q = Neg(r) }"""


@pytest.fixture
def graph() -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model(TEXT))


@pytest.fixture
def feeds() -> dict[str, Any]:
    return {"x": np.float32([[1, 2], [3, 4], [5, 6]]), "n": np.int64(3), "c": np.bool_(True)}


def assert_part_is_right(graph: gs.Graph, part: gs.Graph, feeds: dict[str, Any], trip: int = 0) -> None:
    assert not problems(part)
    inputs, outputs = record_part(graph, part, feeds, trip=trip)
    found = onnxruntime.run(part, inputs)
    for name, value in outputs.items():
        assert compare(found[name], value) is None


def test_between_tensors(graph: gs.Graph, feeds: dict[str, Any]) -> None:
    before = str(graph)
    part = isolate(graph, inputs=["e"], outputs=["f"])
    assert [n.op for n in part.nodes] == ["f"]
    assert [f.name for f in part.functions] == ["f"]
    assert [(t.name, t.dtype, list(t.shape)) for t in part.inputs] == [("e", np.float32, ["N", 2])]
    assert_part_is_right(graph, part, feeds)
    assert str(graph) == before
    gs.export_onnx(part)


def test_what_a_body_captures_and_what_was_not_cut_off_become_inputs(
    graph: gs.Graph, feeds: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "onnx_gs"):
        part = isolate(graph, inputs=["f"], outputs=["y"])
    assert [t.name for t in part.inputs] == ["f", "n", "x", "c"] or {t.name for t in part.inputs} == {"f", "n", "x", "c"}
    assert "also needs" in caplog.text
    assert not part.functions
    assert_part_is_right(graph, part, feeds)


@pytest.mark.parametrize("trip", [0, 2])
def test_inside_a_body(graph: gs.Graph, feeds: dict[str, Any], trip: int) -> None:
    part = isolate(graph, inputs=["m"], outputs=["h2"])
    assert [n.op for n in part.nodes] == ["If", "Add"]
    assert_part_is_right(graph, part, feeds, trip)
    inner = isolate(graph, outputs=["aa"])
    assert [t.name for t in inner.inputs] == ["m"]
    assert_part_is_right(graph, inner, feeds, trip)
    with pytest.raises(GraphValueError, match="no trip 9"):
        record_part(graph, inner, feeds, trip=9)
    other = isolate(graph, outputs=["b2"])
    with pytest.raises(GraphValueError, match="did not run: its branch was not taken") as caught:
        record_part(graph, other, feeds, trip=trip)
    assert (caught.value.where or "").endswith("else_branch")


def test_a_weight_named_as_an_input_becomes_one(graph: gs.Graph, feeds: dict[str, Any]) -> None:
    part = isolate(graph, inputs=["h", "w"], outputs=["m"])
    assert [(t.name, t.dtype, list(t.shape)) for t in part.inputs][1] == ("w", np.float32, [2])
    assert_part_is_right(graph, part, feeds)


def test_nodes_operators_and_neighborhoods(graph: gs.Graph, feeds: dict[str, Any]) -> None:
    for part, ops in (
        (isolate(graph, op="Exp"), ["Exp"]),
        (isolate(graph, nodes=[graph.nodes[1], graph.nodes[2]]), ["Exp", "f"]),
        (isolate(graph, around="e", hops=1), ["Exp", "f"]),
        (isolate(graph, around="m", hops=2), ["Mul", "If", "Add"]),
    ):
        assert {n.op for n in part.nodes} >= set(ops)
        assert_part_is_right(graph, part, feeds)


HELD = """<ir_version: 9, opset_import: ["" : 18]>
g (float[2] x, bool c) => (float[2] y, float[2] z) {
  w = Constant<value = float[2] {1.0, 2.0}>()
  e = Mul(x, w)
  z = Neg(w)
  y = If(c) <then_branch = t () => (float[2] a) { k = Constant<value_float = 3.0>()  m = Add(e, w)  a = Div(m, k) },
             else_branch = u () => (float[2] b) { n = Sub(e, w)  b = Sqrt(n) }>
}"""


@pytest.mark.parametrize(
    ("how", "ops", "inputs", "outputs"),
    [
        ({"nodes": ["e"]}, ["Constant", "Mul"], ["x"], ["e"]),
        ({"op": "Mul"}, ["Constant", "Mul"], ["x"], ["e"]),
        ({"around": "e", "hops": 1}, ["Constant", "Mul", "If"], ["x", "c"], ["y"]),
        ({"inputs": ["e"], "outputs": ["y"]}, ["Constant", "If"], ["e", "c"], ["y"]),
        ({"inputs": ["w"], "outputs": ["e"]}, ["Mul"], ["w", "x"], ["e"]),
        ({"nodes": ["y"]}, ["Constant", "If"], ["c", "e"], ["y"]),
        ({"nodes": ["y > then_branch > m"]}, ["Constant", "Add"], ["e"], ["m"]),
        ({"nodes": ["y > then_branch > a"]}, ["Constant", "Div"], ["m"], ["a"]),
        ({"inputs": ["m"], "outputs": ["a"]}, ["Constant", "Div"], ["m"], ["a"]),
        ({"outputs": ["a"]}, ["Constant", "Constant", "Add", "Div"], ["e"], ["a"]),
        ({"outputs": ["n", "w"]}, ["Constant", "Sub"], ["e"], ["n", "w"]),
        ({"nodes": ["w"]}, ["Constant"], [], ["w"]),
        ({"nodes": ["w", "e"]}, ["Constant", "Mul"], ["x"], ["e"]),
    ],
)
def test_constant_nodes_that_a_part_reads_come_along(how: dict[str, Any], ops: list[str], inputs: list[str], outputs: list[str]) -> None:
    graph = gs.import_onnx(onnx.parser.parse_model(HELD))
    for node in graph.nodes:
        node.name = node.name or node.outputs[0].name
    before = gs.export_onnx(graph).SerializeToString()
    part = isolate(graph, **how)
    assert [n.op for n in part.nodes] == ops
    assert sorted(t.name for t in part.inputs) == sorted(inputs)
    assert [t.name for t in part.outputs] == outputs
    assert not problems(part)
    assert gs.export_onnx(graph).SerializeToString() == before
    if "c" not in inputs:  # a branch that a part lies in must be taken
        feeds = {"x": np.array([5, 7], np.float32), "c": np.array(outputs != ["n", "w"])}
        given, expected = record_part(graph, part, feeds)
        found = onnxruntime.run(part, given)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


def test_a_constant_whose_value_a_call_gives_stays_an_input() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[1] x) => (float[1] y) { y = local.f<v = 2.0>(x) }
<domain: "local", opset_import: ["" : 18]>
f <v> (p) => (q) { k = Constant<value_float: float = @v>()  q = Mul(p, k) }"""
    part = isolate(gs.import_onnx(onnx.parser.parse_model(text)).functions[0], op="Mul")
    assert ([n.op for n in part.nodes], sorted(t.name for t in part.inputs)) == (["Mul"], ["k", "p"])


def test_outputs_in_different_bodies_are_refused(graph: gs.Graph) -> None:
    with pytest.raises(GraphValueError, match="different bodies"):
        isolate(graph, outputs=["y", "m"])


def test_names_that_are_not_there_get_a_suggestion(graph: gs.Graph) -> None:
    with pytest.raises(GraphValueError, match="no tensor or node is named 'h3'") as caught:
        isolate(graph, outputs=["h3"])
    assert "did you mean 'h'" in str(caught.value.fix)


def test_an_ambiguous_name_is_refused_and_a_path_decides() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[2] x, bool c) => (float[2] y) {
      [pick] y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = u () => (float[2] a) { a = Abs(x) }>
    }"""
    graph = gs.import_onnx(onnx.parser.parse_model(text))
    graph.nodes[0].name = "pick"
    with pytest.raises(GraphValueError, match="2 tensors or nodes are named 'a'"):
        isolate(graph, outputs=["a"])
    assert [n.op for n in isolate(graph, outputs=["pick > else_branch > a"]).nodes] == ["Abs"]
    assert [n.op for n in isolate(graph, outputs=["#0 > then_branch > a"]).nodes] == ["Neg"]


def test_random_cuts_of_random_chains_agree(graph: gs.Graph, feeds: dict[str, Any]) -> None:
    rng = random.Random(0)
    everything = [t.name for g in walk.graphs(graph) for n in g.nodes for t in n.outputs if t.name and n.op != "Constant"]
    for _ in range(12):
        end = rng.choice(everything)
        if end in {"b2", "co"}:
            continue
        starts = rng.sample([n for n in everything if n not in {end, "b2"}], 2)
        assert_part_is_right(graph, isolate(graph, inputs=starts, outputs=[end]), feeds)


def test_capture_gives_lists_inside_bodies(graph: gs.Graph, feeds: dict[str, Any], tmp_path: Any) -> None:
    found = capture(graph, ["e", "m", "aa", "b2", "w"], feeds)
    assert np.array_equal(found["w"], np.float32([1, 2]))
    assert found["e"].shape == (3, 2)
    assert [len(found[k]) for k in ("m", "aa", "b2")] == [3, 3, 0]
    assert np.array_equal(found["aa"][1], -found["m"][1])
    files = save_test_data(tmp_path, {"x": feeds["x"]}, {"e": found["e"]})
    assert sorted(f.name for f in files) == ["input_0.pb", "output_0.pb", "test_data_set_0.npz"]
    stored = onnx.load_tensor(str(tmp_path / "test_data_set_0" / "input_0.pb"))
    assert np.array_equal(onnx.numpy_helper.to_array(stored), feeds["x"])


def test_capture_inside_a_scan() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[2] s0, float[4, 2] xs) => (float[2] s1, float[4, 2] ys) {
      s1, ys = Scan<num_scan_inputs = 1, body = b (float[2] s, float[2] x) => (float[2] t, float[2] o) { t = Add(s, x)  u = Neg(t)  o = Exp(u) }>(s0, xs)
    }"""
    graph = gs.import_onnx(onnx.parser.parse_model(text))
    feeds = {"s0": np.float32([0, 1]), "xs": np.arange(8, dtype=np.float32).reshape(4, 2)}
    found = capture(graph, ["u", "ys"], feeds)
    assert len(found["u"]) == 4
    assert np.array_equal(np.exp(np.stack(found["u"])).astype(np.float32).round(5), found["ys"].round(5))


TWICE = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[2] x) => (float[2] y) {
  q, s, z = DynamicQuantizeLinear(x)
  d = DequantizeLinear(q, s, z)
  y = local.f(d)
}
<domain: "local", opset_import: ["" : 18]>
f (p) => (r) { a = Abs(p) r = Neg(a) }"""


def test_a_node_whose_other_output_is_an_input_is_kept() -> None:
    graph = gs.import_onnx(onnx.parser.parse_model(TWICE))
    part = isolate(graph, inputs=["z"], outputs=["d"])
    assert [t.name for t in part.inputs] == ["z", "x"]
    onnx.checker.check_model(gs.export_onnx(part), full_check=True)
    x = np.float32([0, 2.55])
    assert np.allclose(onnxruntime.run(part, {"x": x, "z": np.uint8(0)})["d"], x)


def test_a_part_of_a_function_is_a_graph() -> None:
    function = gs.import_onnx(onnx.parser.parse_model(TWICE)).functions[0]
    part = isolate(function, inputs=["a"], outputs=["r"])
    assert isinstance(part, gs.Graph)
    assert not isinstance(part, gs.Function)
    assert [n.op for n in part.nodes] == ["Neg"]


LATE_BRANCH = """<ir_version: 9, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) {
  n = Constant<value = int64 {4}>()
  true = Constant<value = bool {1}>()
  two = Constant<value = int64 {2}>()
  y = Loop(n, true, x) <body = b (int64 i, bool ci, float[2] h) => (bool co, float[2] h2) {
     co = Identity(ci)
     k = Add(h, x)
     late = GreaterOrEqual(i, two)
     h2 = If(late) <then_branch = t () => (float[2] p) { p = Mul(k, x) }, else_branch = e () => (float[2] q) { q = Neg(k) }>
  }>
}"""


def test_values_from_around_a_branch_are_those_of_the_same_time() -> None:
    graph = gs.import_onnx(onnx.parser.parse_model(LATE_BRANCH))
    part = isolate(graph, outputs=["p"])
    for trip in (0, 1):  # the branch first runs in the loop's third trip
        inputs, outputs = record_part(graph, part, {"x": np.float32([1, 2])}, trip=trip)
        assert np.array_equal(onnxruntime.run(part, inputs)["p"], outputs["p"])
        assert np.array_equal(inputs["k"] * inputs["x"], outputs["p"])


def test_deeply_nested_branches_take_no_time() -> None:
    body = "y0 = Neg(x)"
    for k in range(1, 21):
        body = (
            f"y{k} = If(c) <then_branch = t{k} () => (float[2] y{k - 1}) {{ {body} }}, else_branch = e{k} () => (float[2] z{k}) {{ z{k} = Abs(x) }}>"
        )
    model = f'<ir_version: 9, opset_import: ["" : 18, "local" : 1]>\ng (float[2] x, bool c) => (float[2] r) {{ {body} r = local.f(y20) }}'
    graph = gs.import_onnx(onnx.parser.parse_model(model + '\n<domain: "local", opset_import: ["" : 18]>\nf (p) => (q) { q = Neg(p) }'))
    part = isolate(graph, outputs=["r"])  # a walk that doubles at each depth would not end
    assert len(part.functions) == 1


def test_types_are_inferred_from_what_is_above_only_and_the_model_stays() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[n, 4] x, bool c) => (float[n, 4] y, z) {
      [a] h = Neg(x)
      [i] k = If(c) <then_branch = t () => (m) { [deep] d = Abs(h)  m = Exp(d) }, else_branch = e () => (o) { o = Identity(h) }>
      [b] y = Relu(k)
      [s] z = Shape(y)
    }"""
    graph = gs.import_onnx(onnx.parser.parse_model(text))
    before = str(graph)
    part = isolate(graph, nodes=["b"])
    assert [(t.name, t.dtype, list(t.shape)) for t in part.inputs] == [("k", np.float32, ["n", 4])]
    inner = isolate(graph, nodes=["i > then_branch > deep"])
    assert [(t.name, t.dtype, list(t.shape)) for t in (*inner.inputs, *inner.outputs)] == [("h", np.float32, ["n", 4]), ("d", np.float32, ["n", 4])]
    assert str(graph) == before
    assert [t.name for t in graph.outputs] == ["y", "z"]
    assert all(n.outputs[0].inputs == [n] for n in graph.nodes)
