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


def picky(axis: int, sizes: tuple[int, ...]):
    """Give what runs with some sizes only."""

    def attempt(values):
        if values["x"].shape[axis] not in sizes:
            raise gs.EvaluationError(f"size {values['x'].shape[axis]}")
        return values["x"].shape

    return attempt


def test_larger_sizes_are_tried_where_small_ones_do_not_run():
    graph = gs.Graph(inputs=[gs.Variable("x", np.float32, ("n", 3, "h", None))])
    assert feeds.first_that_run(graph, picky(2, (2,)))[1] == (2, 3, 2, 2)
    assert feeds.first_that_run(graph, picky(2, (8,)))[1] == (2, 3, 8, 8)
    assert feeds.first_that_run(graph, picky(2, (32, 64)))[1] == (2, 3, 32, 32)
    assert feeds.first_that_run(graph, picky(2, (512,)))[1] == (3, 3, 512, 512)
    assert feeds.first_that_run(graph, picky(0, (1,)))[1] == (1, 3, 2, 2)
    with pytest.raises(gs.EvaluationError, match="size 2"):  # the first reason is told
        feeds.first_that_run(graph, picky(2, (1000,)))


def test_rounds_are_bounded_and_none_is_like_another():
    fixed = gs.Graph(inputs=[gs.Variable("x", np.float32, (2, 3))])
    assert len(list(feeds.rounds(fixed))) == 1
    indices = gs.Graph(inputs=[gs.Variable("x", np.int64, (2, 3))])
    assert [max(int(one["x"].max()) for one in sets) for sets in feeds.rounds(indices)] == [9, 1, 0]
    assert [len(sets) for sets in feeds.rounds(fixed, given={"x": np.zeros((2, 3), np.float32)})] == [1]
    large = gs.Graph(inputs=[gs.Variable("x", np.float32, ("n", "c", "h", "w", "d"))])
    shapes = [one["x"].shape for sets in feeds.rounds(large) for one in sets]
    assert max(map(np.prod, shapes)) <= 1 << 22


def test_given_values_say_the_sizes_of_their_dims():
    graph = gs.Graph(inputs=[gs.Variable("x", np.float32, ("n", 3)), gs.Variable("y", np.float32, ("n", "m"))])
    assert feeds.make(graph, given={"y": np.zeros((7, 6), np.float32)})["x"].shape == (7, 3)


def test_a_model_that_is_refused_is_tried_once():
    tries = []

    def attempt(values):
        tries.append(values)
        raise gs.EvaluationError(f"{feeds.CANNOT_LOAD}: no such operator")

    with pytest.raises(gs.EvaluationError, match="no such operator"):
        feeds.first_that_run(gs.Graph(inputs=[gs.Variable("x", np.float32, ("n",))]), attempt)
    assert len(tries) == 1


def test_what_another_model_takes():
    one = gs.Graph(inputs=[gs.Variable("x", np.float32, (2,)), gs.Variable("s", np.float32, (2,))])
    other = gs.Graph(inputs=[gs.Variable("x", np.float32, (2,)), gs.Variable("z", np.float32, (2,))])
    assert feeds.for_other(one, other, {"x": 1, "s": 2, "z": 3}) == {"x": 1, "z": 3}
    with pytest.raises(gs.errors.GraphValueError, match="only the second has 'z', only the first 's'"):
        feeds.for_other(one, other, {"x": 1, "s": 2})


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
