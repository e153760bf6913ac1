"""Made-up inputs: of the declared types, seeded, in sizes that agree."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import feeds
from onnx_gs.ir import dtypes
from onnx_gs.ir.types import ValueType


@pytest.mark.parametrize("known", dtypes.ALL, ids=lambda t: t.name)
def test_every_element_type(known):
    graph = gs.Graph(inputs=[gs.Variable("x", known.number, (3, "n"))])
    found = feeds.make(graph, seed=1)["x"]
    assert found.shape == (3, 2)
    assert dtypes.find(found.dtype) is known
    assert feeds.make(graph, seed=1)["x"].tolist() == found.tolist()


def test_one_name_has_one_size_and_variants_differ():
    graph = gs.Graph(inputs=[gs.Variable("x", np.float32, ("n", None)), gs.Variable("y", np.int64, ("n", "m")), gs.Variable("s", np.float32, ())])
    small, large = feeds.make(graph), feeds.make(graph, variant=1)
    assert small["x"].shape == (2, 2)
    assert large["x"].shape == (3, 3)
    assert small["y"].shape[0] == small["x"].shape[0]
    assert small["s"].shape == ()
    assert feeds.make(graph, dims={"n": 7})["y"].shape == (7, 2)
    assert feeds.make(graph, given={"x": 1})["x"] == 1
    assert (feeds.make(graph, low=4, high=5)["y"] == 4).all()


def test_sequences_optionals_and_maps():
    x, o, m = gs.Variable("x"), gs.Variable("o"), gs.Variable("m")
    x.value_type = ValueType("sequence_type", element=ValueType("tensor_type", np.float32, [2, "n"]))
    o.value_type = ValueType("optional_type", element=ValueType("tensor_type", ml_dtypes.bfloat16, [2]))
    m.value_type = ValueType("map_type", np.int64, element=ValueType("tensor_type", np.float32))
    found = feeds.make(gs.Graph(inputs=[x, o, m]))
    assert [v.shape for v in found["x"]] == [(2, 2), (2, 2)]
    assert found["o"].dtype == ml_dtypes.bfloat16
    assert set(found["m"]) == {0, 1}


def test_unknown_types_are_named():
    with pytest.raises(gs.EvaluationError, match="'x' has no element type"):
        feeds.make(gs.Graph(inputs=[gs.Variable("x")]))


def test_indices_stay_within_the_smallest_table_that_they_are_looked_up_in():
    x, row = gs.Variable("x", np.int64, ("n", 50)), gs.Variable("row")
    tables = [gs.Constant(name, np.zeros((size, 4), np.float32)) for name, size in (("words", 30), ("kinds", 2))]
    outs = [gs.Variable(name, np.float32) for name in ("a", "b")]
    nodes = [gs.Node("Unsqueeze", inputs=[x, gs.Constant("axis", np.array([0]))], outputs=[row])]
    nodes += [gs.Node("Gather", inputs=[table, index], outputs=[out]) for table, index, out in zip(tables, (x, row), outs)]
    graph = gs.Graph(nodes, [x], outs, opset=18)
    assert set(np.unique(feeds.make(graph)["x"])) == {0, 1}
