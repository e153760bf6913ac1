from __future__ import annotations

import logging

import pytest

from onnx_gs.errors import GraphValueError
from onnx_gs.trt.profiles import InputSpec, ShapeRange, derive, parse_shapes

X = InputSpec("x", (None, 3, None), ("n", None, "w"))
Y = InputSpec("y", (None,), ("n",))


def test_one_two_or_three_shapes():
    assert parse_shapes("x:1x2") == {"x": ShapeRange((1, 2), (1, 2), (1, 2))}
    assert parse_shapes("x:1x2..3x4") == {"x": ShapeRange((1, 2), (3, 4), (3, 4))}
    assert parse_shapes("input:0:1..2..3, n=5") == {"input:0": ShapeRange((1,), (2,), (3,)), "n": ShapeRange((5,), (5,), (5,), is_values=True)}
    assert str(parse_shapes("x:1x2..3x4..5x6")["x"]) == "1x2..3x4..5x6"


@pytest.mark.parametrize("text", ["x", "x:1xa", "x:1..2..3..4", "x:1x2..3", ":1"])
def test_text_that_is_no_range(text):
    with pytest.raises(GraphValueError) as raised:
        parse_shapes(text)
    assert raised.value.fix


def test_dims_of_one_name_have_one_range():
    profile = derive([X, Y], {"x": ShapeRange.of((1, 3, 8), (2, 3, 16), (4, 3, 32))}, {})
    assert profile.shapes["y"] == ShapeRange((1,), (2,), (4,))
    assert not profile.guessed


def test_dims_by_name():
    profile = derive([X, Y], {}, {"n": (1, 2, 3), "w": (4, 4, 4)})
    assert profile.shapes["x"] == ShapeRange((1, 3, 4), (2, 3, 4), (3, 3, 4))
    assert profile.shapes["y"] == ShapeRange((1,), (2,), (3,))


def test_the_default_is_named():
    profile = derive([X, Y], {}, {})
    assert profile.guessed == ["n", "w"]
    assert profile.shapes["x"] == ShapeRange((1, 3, 1), (4, 3, 4), (8, 3, 8))


def test_static_inputs_need_nothing():
    profile = derive([InputSpec("z", (2, 3))], {}, {})
    assert not profile.shapes
    assert not profile.values


def test_values_of_inputs_that_set_shapes():
    spec = InputSpec("s", (2,), sets_shapes=True)
    assert derive([spec], {}, {}).values["s"] == ShapeRange((1, 1), (4, 4), (8, 8), is_values=True)
    assert derive([spec], {"s": ShapeRange.of((2, 2), is_values=True)}, {}).values["s"].max == (2, 2)


def test_values_that_set_no_shape_are_not_used(caplog):
    with caplog.at_level(logging.WARNING, "onnx_gs"):
        profile = derive([InputSpec("s", (2,))], {"s": ShapeRange.of((2, 2), is_values=True)}, {})
    assert not profile.values
    assert "values set no shape" in caplog.text


@pytest.mark.parametrize(
    ("given", "dims", "what"),
    [
        ({"x": ShapeRange.of((4, 3, 1), (2, 3, 1), (8, 3, 1))}, {}, "dim 0 of input 'x' has the range 4..2..8, which is not in order"),
        ({"x": ShapeRange.of((1, 4, 1))}, {}, "dim 1 of input 'x' is fixed at 3, but the range 1x4x1 says otherwise"),
        ({"x": ShapeRange.of((1, 3))}, {}, "input 'x' has 3 dims, but the range 1x3 has 2"),
        ({"x": ShapeRange.of((-1, 3, 1))}, {}, "dim 0 of input 'x' has the negative size -1"),
        ({"q": ShapeRange.of((1,))}, {}, "shapes are given for 'q', which is no input"),
        ({"x": ShapeRange.of((1, 3, 1)), "y": ShapeRange.of((2,))}, {}, "dim 'n' is given two ranges: 1..1..1 and 2..2..2"),
        ({"y": ShapeRange.of((2,))}, {}, "input 'x' is dynamic (nx3xw), but no range is given for w"),
        ({}, {"k": (1, 1, 1)}, "a range is given for dim 'k', which no input has"),
        ({}, {"n": (3, 2, 1)}, "dim 'n' has the range 3..2..1, which is not in order"),
    ],
)
def test_ranges_that_make_no_sense(given, dims, what):
    with pytest.raises(GraphValueError) as raised:
        derive([X, Y], given, dims)
    assert raised.value.what == what
    assert raised.value.fix


def test_a_range_of_values_must_be_in_order():
    with pytest.raises(GraphValueError, match="not in order"):
        derive([InputSpec("s", (1,), sets_shapes=True)], {"s": ShapeRange.of((4,), (2,), (8,), is_values=True)}, {})
