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
