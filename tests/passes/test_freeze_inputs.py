from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.errors import GraphValueError
from onnx_gs.passes.freeze_inputs import FreezeInputs
from tests.support.rewrites import assert_same, model, run

TEXT = "g (float[2,3] x, int64 axis) => (float[2,3] y) { y = CumSum (x, axis) }"


def test_a_frozen_input_is_a_constant_and_leaves_the_interface():
    source = model(TEXT)
    graph = gs.import_onnx(source)
    report = FreezeInputs({"axis": 1})(graph)
    assert [t.name for t in graph.inputs] == ["x"]
    assert report.rewritten[0].reason == "input 'axis' is frozen"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same(run(source, {"x": x, "axis": np.int64(1)}), run(gs.export_onnx(graph), {"x": x}))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("axes", 1, "there is no input 'axes' to freeze"),
        ("axis", 1.5, "value 1.5 of input 'axis' is no int64"),
        ("axis", [1, 2], "has shape [2], the input []"),
        ("x", np.zeros((3, 2)), "has shape [3, 2], the input [2, 3]"),
    ],
)
def test_a_value_that_does_not_fit_changes_nothing(name, value, text):
    graph = gs.import_onnx(model(TEXT))
    with pytest.raises(GraphValueError) as error:
        FreezeInputs({"x": np.zeros((2, 3), np.float32), name: value})(graph)
    assert text in str(error.value)
    assert [t.name for t in graph.inputs] == ["x", "axis"]


def test_a_number_freezes_a_tensor_of_one_element():
    graph = gs.import_onnx(model("g (float[2] x, float[1] k) => (float[2] y) { y = Mul (x, k) }"))
    FreezeInputs({"k": 3})(graph)
    assert graph.nodes[0].inputs[1].values.tolist() == [3.0]


def test_a_symbolic_dim_takes_any_size():
    graph = gs.import_onnx(model("g (float[N] x) => (float[N] y) { y = Neg (x) }"))
    FreezeInputs({"x": [1, 2, 3]})(graph)
    assert not graph.inputs
    assert run(gs.export_onnx(graph), {})[0].tolist() == [-1.0, -2.0, -3.0]
