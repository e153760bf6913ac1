"""Tensors: kinds change in place, names compare, copies have no links."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from onnx_gs.errors import GraphTypeError, OnnxGsError
from onnx_gs.ir import Constant, Node, Tensor, Variable


def test_tensor_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        Tensor("x")
    assert Tensor.DYNAMIC == -1


def test_tensors_compare_by_name_and_have_no_hash() -> None:
    assert Variable("a", np.float32, (1,)) == Constant("a", np.zeros(3))
    assert Variable("a") != Variable("b")
    assert Variable.empty() == Variable.empty()
    assert Variable.empty().is_empty()
    assert Variable("a") != None  # noqa: E711 - the comparison itself is tested
    assert Variable("a") != "a"
    with pytest.raises(TypeError):
        hash(Variable("a"))


def test_to_constant_and_back_is_the_same_object_with_the_same_links() -> None:
    x, y = Variable("x", np.float32, (2,)), Variable("y", np.float32, (2,))
    node = Node("Neg", inputs=[x], outputs=[y])
    assert y.to_constant(np.float32([1, 2])) is y
    assert isinstance(y, Constant)
    assert node.outputs[0] is y
    assert y.inputs[0] is node
    assert y.shape == (2,)
    assert y.to_variable() is y
    assert isinstance(y, Variable)
    assert y.dtype == np.float32
    assert y.shape == []
    assert y.type == "tensor_type"


def test_default_shapes_of_to_variable_are_separate_lists() -> None:
    one, two = Constant("one", np.zeros(2)).to_variable(), Constant("two", np.zeros(2)).to_variable()
    one.shape.append(3)
    assert two.shape == []


def test_to_variable_of_a_variable_keeps_its_dtype() -> None:
    assert Variable("x", np.float16, (1,)).to_variable().dtype == np.float16


def test_walking_by_index() -> None:
    x, y, z = Variable("x"), Variable("y"), Variable("z")
    first, second = Node("A", inputs=[x], outputs=[y]), Node("B", inputs=[y], outputs=[z])
    assert y.i() is x
    assert y.o() is z
    assert second.i() is first
    assert first.o() is second


@pytest.mark.parametrize("wrong", [[1, 2], 3.0, None, "x"])
def test_a_constant_needs_an_array(wrong: object) -> None:
    with pytest.raises(GraphTypeError, match=r"np\.array"):
        Constant("w", wrong)  # type: ignore[arg-type]
    with pytest.raises(OnnxGsError):
        Variable("w").to_constant(wrong)  # type: ignore[arg-type]


def test_export_dtype_defaults_to_dtype_and_refuses_strings() -> None:
    w = Constant("w", np.zeros(2, np.float32))
    assert w.export_dtype == np.float32
    w.export_dtype = ml_dtypes.bfloat16
    assert w.export_dtype is ml_dtypes.bfloat16
    assert w.dtype == np.float32
    with pytest.raises(GraphTypeError):
        w.export_dtype = "nonsense"
    with pytest.raises(GraphTypeError):
        w.export_dtype = str
    assert Constant("w", np.zeros(2, np.float32), export_dtype=10).export_dtype == 10


def test_copies_have_no_links_and_share_values() -> None:
    w = Constant("w", np.zeros(2, np.float32), data_location=1)
    Node("Neg", inputs=[w])
    for twin in (w.copy(), copy.copy(w)):
        assert twin.values is w.values
        assert twin.data_location == 1
        assert not twin.outputs
    deep = copy.deepcopy(w)
    assert deep.values is not w.values
    deep.values = np.zeros(3, np.int64)  # a copy takes values of another dtype
    assert deep.export_dtype == np.int64
    seq = Variable("s", np.float32, (2,), type="sequence_type")
    assert seq.copy().type == "sequence_type"


@pytest.mark.parametrize("tensor", [Variable("x", np.float32, ("n", 3)), Constant("w", np.arange(3)), Variable("o", 16, [1], type="optional_type")])
def test_pickles(tensor: Tensor) -> None:
    Node("Neg", inputs=[tensor])
    twin = pickle.loads(pickle.dumps(tensor))
    assert type(twin) is type(tensor)
    assert twin == tensor
    assert twin.dtype == tensor.dtype
    assert list(twin.shape) == list(tensor.shape)
    assert twin.type == tensor.type
    assert not twin.outputs


def test_text() -> None:
    assert str(Variable("x", np.float32, (1, "n"))) == "Variable (x): (shape=(1, 'n'), dtype=float32)"
    assert repr(Constant("w", np.float32([1]))).splitlines() == ["Constant (w): (shape=(1,), dtype=float32)", "[1.]"]
