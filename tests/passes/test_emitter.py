from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.errors import GraphError
from onnx_gs.ir import Graph, Variable, dtypes
from onnx_gs.ir.names import Names
from onnx_gs.passes.emitter import Emitter

X = Variable("x", np.float32, (2, "n", 4))


def emitter(opset=18):
    return Emitter(Names(Graph(inputs=[X])), opset, "made")


@pytest.mark.parametrize(("opset", "inputs", "attributes"), [(18, 2, []), (13, 2, []), (11, 1, ["axes"])])
def test_axes_stand_where_the_opset_has_them(opset, inputs, attributes):
    emit = emitter(opset)
    assert emit.unsqueeze(X, [0, -1]).shape == [1, 2, "n", 4, 1]
    assert len(emit.nodes[0].inputs) == inputs
    assert list(emit.nodes[0].attrs) == attributes


@pytest.mark.parametrize(("opset", "attributes"), [(17, ["axes", "keepdims"]), (18, ["keepdims"])])
def test_reductions_take_axes_as_input_later(opset, attributes):
    emit = emitter(opset)
    assert emit.reduce("ReduceMax", X, [1], keepdims=False).shape == [2, 4]
    assert list(emit.nodes[0].attrs) == attributes


def test_shapes_are_followed():
    emit = emitter()
    assert emit.slice(X, 1, 3, 2).shape == [2, "n", 2]
    assert emit.slice(X, 0, 3, 1).shape == [2, None, 4]
    assert emit.gather(X, emit.constant(np.int64(0)), -1).shape == [2, "n"]
    assert emit.transpose(X, [2, 0, 1]).shape == [4, 2, "n"]
    assert emit.concat([X, X], 2).shape == [2, "n", 8]
    assert emit.concat([X, X], 1).shape == [2, None, 4]
    assert emit.elementwise("Add", X, emit.constant(np.float32(1))).shape == [2, "n", 4]
    assert [t.shape for t in emit.split(X, [1, 3], 2, 2)] == [[2, "n", 1], [2, "n", 3]]


def test_what_changes_nothing_adds_nothing():
    emit = emitter()
    assert emit.cast(X, dtypes.FLOAT) is X
    assert emit.transpose(X, [0, 1, 2]) is X
    assert emit.concat([X], 0) is X
    assert not emit.nodes


def test_a_slice_with_computed_bounds_needs_opset_10():
    with pytest.raises(GraphError) as error:
        emitter(9).slice(X, Variable("start"), 3, 0)
    assert "opset 10" in str(error.value)


def test_names_are_fresh():
    emit = emitter()
    made = [emit.identity(X), emit.identity(X)]
    assert len({t.name for t in made} | {n.name for n in emit.nodes}) == 4
