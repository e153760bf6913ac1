"""The first tensor that differs is named, across renames; equal runs differ nowhere."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug.layerwise import layerwise
from onnx_gs.errors import GraphValueError

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
  a = Mul(x, w)
  b = Exp(a)
  d = Add(a, b)
  y = Tanh(d)
}"""


def model() -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model(TEXT))


def test_a_model_equals_itself() -> None:
    found = layerwise(model())
    assert len(found.rows) == 4
    assert found.first is None
    assert str(found) == "4 tensors compared, none differs"


def test_the_first_difference_is_found_across_renames() -> None:
    other = model()
    other.nodes[2].inputs[0] = other.nodes[1].outputs[0]  # b + b
    for node in other.nodes[:-1]:
        node.outputs[0].name = f"renamed_{node.outputs[0].name}"
    found = layerwise(model(), other)
    assert found.first is not None
    assert (found.first.name, found.first.other) == ("d", "renamed_d")
    assert [r.name for r in found.differing] == ["d", "y"]
    assert found.first.difference is not None
    assert found.first.difference.absolute > 0


def test_other_nodes_in_the_same_place_are_not_compared() -> None:
    def chain(*ops: tuple[str, dict[str, list[int]]], prefix: str) -> gs.Graph:
        graph = gs.Graph(inputs=[gs.Variable("x", np.float32, (2, 3))], opset=18)
        last = graph.inputs[0]
        for at, (op, attrs) in enumerate(ops):
            last = graph.layer(op=op, inputs=[last], attrs=attrs, outputs=[gs.Variable(f"{prefix}{at}")])[0]
        last.name, last.dtype = "y", np.float32
        graph.outputs = [last]
        return graph

    turn = ("Transpose", {"perm": [1, 0]})
    one = chain(turn, ("Neg", {}), turn, ("Abs", {}), prefix="a")
    rewritten = chain(("Exp", {}), ("Log", {}), ("Transpose", {"perm": [0, 1]}), ("Abs", {}), prefix="b")
    found = layerwise(one, rewritten, feeds={"x": np.ones((2, 3), np.float32)}, absolute=1e-6)
    assert found.first is None
    assert "a0" in found.unmatched
    assert [(r.name, r.other) for r in found.rows][-1] == ("y", "y")


def test_two_evaluators_and_a_tolerance() -> None:
    found = layerwise(model(), evaluators=("onnxruntime", "reference"), relative=1e-4, batch=2)
    assert found.first is None
    assert len(found.rows) == 4
    assert layerwise(model(), evaluators=("onnxruntime", "onnxruntime-optimized"), relative=1e-5).first is None


def test_as_data_and_as_a_plot() -> None:
    other = model()
    other.nodes[1].op = "Sqrt"
    found = layerwise(model(), other, feeds={"x": np.ones((2, 4), np.float32)})
    assert found.as_dict()["differing"][0]["name"] == "b"
    assert found.plot().startswith("<svg")
    assert found.plot().count("<circle") == 4


def test_an_unknown_evaluator_is_refused() -> None:
    with pytest.raises(GraphValueError, match="no evaluator 'abacus'"):
        layerwise(model(), evaluators=("onnxruntime", "abacus"))


def parsed(text: str) -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]>\n' + text))


def test_a_node_that_took_over_its_neighbor_is_no_difference() -> None:
    weights = "<float[2, 1, 1, 1] w = {1.0, 2.0}, float[2] b = {3.0, 4.0}, float[1, 2, 1, 1] wide = {3.0, 4.0}>"
    one = parsed(f"g (float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y) {weights} {{ c = Conv(x, w) s = Add(c, wide) y = Abs(s) }}")
    other = parsed(f"g (float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y) {weights} {{ c = Conv(x, w, b) y = Abs(c) }}")
    found = layerwise(one, other)
    assert found.first is None
    assert str(found) == "1 tensor compared, none differs"
    assert found.unmatched == ["c", "s"]


def test_a_name_that_moved_is_no_difference() -> None:
    text = "g (float[4] x, int64[4] i) => (float[4] y) {{ {} z = Neg(f) y = Abs(z) }}"
    one = parsed(text.format("t = Add(i, i) f = Cast<to = 1>(t) u = Exp(x)"))
    other = parsed(text.format("u = Add(i, i) f = Cast<to = 1>(u) t = Exp(x)"))
    found = layerwise(one, other)
    assert not found.differing + found.inner
    assert {(r.name, r.other) for r in found.rows} >= {("t", "u"), ("u", "t")}


def test_loop_outputs_are_not_matched_by_their_place() -> None:
    def loop(carried: str, body: str, names: str) -> gs.Graph:
        return parsed(
            f"""g (float[2] x) => (float[2] y) <int64 n = {{3}}, bool go = {{1}}, int64 zero = {{0}}> {{
            {names} = Loop <body = b (int64 i, bool c, {carried}) => ({body}) {{ ci = Identity(c) an = Abs(a) kn = Identity(i) }}> (n, go, {{}})
            y = Neg(fa) }}""".replace("{}", "x, zero" if carried.startswith("float") else "zero, x")
        )

    one = loop("float[2] a, int64 k", "bool ci, float[2] an, int64 kn", "fa, fk")
    other = loop("int64 k, float[2] a", "bool ci, int64 kn, float[2] an", "gk, fa")
    found = layerwise(one, other)
    assert found.first is None
    assert not found.inner


def test_only_what_leads_to_an_output_that_differs_is_a_difference() -> None:
    text = "g (float[4] x) => (float[4] y, float[4] z) {{ a = {}(x) b = Sign(a) y = Abs(b) c = {}(x) z = Neg(c) }}"
    one = parsed(text.format("Exp", "Cosh"))
    found = layerwise(one, parsed(text.format("Softplus", "Cosh")))
    assert found.first is None
    assert [r.name for r in found.inner] == ["a"]
    assert "the outputs are equal; 1 inner value differs, and no output by that: the first is 'a', made by Exp" in str(found)
    found = layerwise(one, parsed(text.format("Softplus", "Sinh")))
    assert [r.name for r in found.differing] == ["c", "z"]
    assert [r.name for r in found.inner] == ["a"]
    assert [row["name"] for row in found.as_dict()["inner"]] == ["a"]


def test_outputs_are_always_compared() -> None:
    one = parsed("g (float[4] x) => (float[4] y, float[4] x) { h = Neg(x) y = Sigmoid(h) }")
    other = parsed("g (float[4] x) => (float[4] y, float[4] x) { h = Neg(x) t = Exp(h) r = Abs(t) y = Sqrt(r) }")
    found = layerwise(one, other)
    assert [r.name for r in found.differing] == ["y"]
    assert [r.name for r in found.rows] == ["h", "y", "x"]
    renamed = parsed("g (float[4] x) => (float[4] out) { h = Neg(x) out = Tanh(h) }")
    assert layerwise(parsed("g (float[4] x) => (float[4] y) { h = Neg(x) y = Sigmoid(h) }"), renamed).first is not None
    fewer = parsed("g (float[4] x) => (float[4] y) { h = Neg(x) y = Sigmoid(h) }")
    assert str(layerwise(one, fewer).first.difference) == "the output is missing"


def test_models_with_different_inputs_are_refused_before_they_run() -> None:
    with pytest.raises(GraphValueError, match="only the second has 'z', only the first 'x'"):
        layerwise(model(), parsed("g (float[4] z) => (float[4] y) { y = Neg(z) }"))
