"""What constants hold, read only as far as asked."""

from __future__ import annotations

import numpy as np
import onnx

import onnx_gs as gs
from onnx_gs.analysis import constness


def of_node(**attrs):
    y = gs.Variable("y")
    gs.Node("Constant", attrs=attrs, outputs=[y])
    return y


def test_weights_and_constant_nodes():
    assert constness.scalar(gs.Constant("a", np.array([[5]]))) == 5
    assert constness.scalar(of_node(value_int=7)) == 7
    assert constness.scalar(of_node(value_float=0.5)) == 0.5
    assert constness.scalar(of_node(value_string="s")) == "s"
    assert constness.array(of_node(value_ints=[1, 2])).tolist() == [1, 2]
    assert constness.array(of_node(value=gs.Constant("", np.float32([3])))).tolist() == [3]
    assert constness.vector(of_node(value_ints=[1, 2])) == [1, 2]
    assert constness.is_constant(of_node(value_int=1))
    assert constness.scalar(gs.Constant("b", np.array(True))) is True


def test_what_is_no_constant():
    x = gs.Variable("x")
    assert constness.array(x) is None
    assert constness.scalar(x) is None
    assert constness.array(of_node(value_int=1, value_float=1.0)) is None
    assert constness.array(of_node(value_int=gs.Node.AttributeRef("a", int))) is None
    y = gs.Variable("y")
    gs.Node("Constant", attrs={"value_int": 1}, outputs=[y], domain="mine")
    assert constness.array(y) is None
    assert constness.scalar(gs.Constant("a", np.array([1, 2]))) is None
    assert constness.vector(gs.Constant("a", np.ones((2, 2)))) is None


def test_limits_are_kept_without_reading():
    lazy = gs.LazyValues(onnx.numpy_helper.from_array(np.zeros(1000, np.float32)))
    weight = gs.Constant("w", lazy)
    assert constness.array(weight, max_bytes=100) is None
    assert constness.scalar(weight) is None
    assert weight._values is lazy
    assert constness.array(weight, max_bytes=4000).shape == (1000,)


def test_values_are_those_that_the_model_has():
    assert constness.array(gs.Constant("w", np.float32([1.7]), export_dtype=np.int32)).tolist() == [1]
