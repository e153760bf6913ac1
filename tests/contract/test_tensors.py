"""What scripts rely on: tensors, in-place conversion, lazy and sparse values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from tests.support.reference_names import module


def lazy(values: Any, name: str = "w") -> Any:
    return module("ir.tensor").LazyValues(onnx.numpy_helper.from_array(np.asarray(values), name))


def linked(kind: str) -> Any:
    tensor: Any = gs.Variable("t", np.float32, (1, 3)) if kind == "variable" else gs.Constant("t", np.ones((1, 3), np.float32))
    gs.Node("Make", inputs=[gs.Variable("before")], outputs=[tensor], name="maker")
    gs.Node("Use", inputs=[tensor], outputs=[gs.Variable("after")], name="user")
    return tensor


def test_tensor_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        gs.Tensor()
    assert gs.Tensor.DYNAMIC == -1


def test_a_variable_keeps_what_it_is_given() -> None:
    tensor = gs.Variable("x", dtype=np.float32, shape=(1, "n", None))
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.type) == ("x", np.float32, (1, "n", None), "tensor_type")
    assert list(tensor.inputs) == list(tensor.outputs) == []
    assert gs.Variable("x").dtype is None
    assert gs.Variable("x").shape is None
    assert gs.Variable("x", shape=[1, 2]).shape == [1, 2]
    assert gs.Variable("x", dtype=onnx.TensorProto.BFLOAT16).dtype == onnx.TensorProto.BFLOAT16
    assert gs.Variable("x", type="sequence_type").type == "sequence_type"


def test_a_constant_tells_shape_and_dtype_of_its_values() -> None:
    values = np.ones((2, 3), np.float64)
    tensor = gs.Constant("c", values)
    assert tensor.values is values
    assert (tensor.shape, tensor.dtype, tensor.export_dtype, tensor.data_location) == ((2, 3), np.float64, np.float64, None)
    tensor.values = np.zeros(4, np.int8)
    assert (tuple(tensor.shape), tensor.dtype) == ((4,), np.int8)
    with pytest.raises(AttributeError):
        tensor.shape = (1,)
    with pytest.raises(AttributeError):
        tensor.dtype = np.int8


@pytest.mark.parametrize("values", [1, 2.0, [1, 2], (1,), "text", None, np.float32(1)])
def test_a_constant_wants_an_array(values: Any) -> None:
    with pytest.raises(gs.OnnxGraphSurgeonException):
        gs.Constant("c", values)
    if not isinstance(values, np.generic):
        with pytest.raises(gs.OnnxGraphSurgeonException):
            gs.Variable("c").to_constant(values)


def test_results_of_arithmetic_on_arrays_without_axes_are_taken() -> None:
    half = np.array([0.25, 0.25], np.float32).sum()
    assert isinstance(half, np.float32)
    tensor = gs.Variable("c").to_constant(half)
    assert isinstance(tensor.values, np.ndarray)
    assert (tensor.dtype, tensor.shape, float(tensor.values)) == (np.float32, (), 0.5)


def test_the_arguments_of_to_constant_stand_where_scripts_put_them() -> None:
    tensor = gs.Variable("c").to_constant(np.ones(2, np.float32), np.float16)
    assert (tensor.export_dtype, tensor.data_location) == (np.float16, None)
    tensor.to_constant(np.ones(2, np.float32), onnx.TensorProto.EXTERNAL, np.float64)
    assert (tensor.export_dtype, tensor.data_location) == (np.float64, onnx.TensorProto.EXTERNAL)


def test_equality_is_by_name() -> None:
    assert gs.Variable("a", np.float32, (1,)) == gs.Variable("a", np.int8, None)
    assert gs.Variable("a") == gs.Constant("a", np.ones(1))
    assert gs.Variable("a") != gs.Variable("b")
    assert gs.Variable.empty() == gs.Variable.empty()
    for thing in (gs.Variable("a"), gs.Constant("a", np.ones(1)), gs.Node("A"), gs.Graph()):
        with pytest.raises(TypeError, match="unhashable"):
            hash(thing)


def test_empty_is_about_the_name() -> None:
    assert gs.Variable.empty().is_empty()
    assert gs.Variable.empty().name == ""
    assert not gs.Variable("x", shape=(0,)).is_empty()
    assert not gs.Constant("x", np.zeros(0)).is_empty()


@pytest.mark.parametrize("kind", ["variable", "constant"])
def test_to_constant_is_in_place(kind: str) -> None:
    tensor = linked(kind)
    maker, user = tensor.inputs[0], tensor.outputs[0]
    values = np.ones((1, 5), np.float64)
    assert tensor.to_constant(values) is tensor
    assert type(tensor) is gs.Constant
    assert tensor.values is values
    assert tensor.name == "t"
    assert tensor.inputs[0] is maker
    assert tensor.outputs[0] is user
    assert isinstance(maker.outputs[0], gs.Constant)
    assert isinstance(user.inputs[0], gs.Constant)


@pytest.mark.parametrize("kind", ["variable", "constant"])
def test_to_variable_is_in_place(kind: str) -> None:
    tensor = linked(kind)
    maker, user = tensor.inputs[0], tensor.outputs[0]
    assert tensor.to_variable(np.int32, (3, "n")) is tensor
    assert type(tensor) is gs.Variable
    assert (tensor.name, tensor.dtype, tensor.shape) == ("t", np.int32, (3, "n"))
    assert tensor.inputs[0] is maker
    assert tensor.outputs[0] is user
    assert isinstance(user.inputs[0], gs.Variable)


def test_to_variable_takes_the_type_and_a_scalar_shape_by_default() -> None:
    tensor = gs.Constant("c", np.ones((2, 2), np.float16)).to_variable()
    assert tensor.dtype == np.float16
    assert tensor.shape == []


@pytest.mark.parametrize("kind", ["variable", "constant"])
def test_walking(kind: str) -> None:
    tensor = linked(kind)
    assert tensor.i().name == "before"
    assert tensor.o().name == "after"
    assert tensor.i(0, 0).name == "before"
    assert tensor.i(tensor_idx=0, producer_idx=0).name == "before"
    assert tensor.o(consumer_idx=0, tensor_idx=0).name == "after"
    for call in (lambda: tensor.i(1), lambda: tensor.o(1), lambda: gs.Variable("alone").i(), lambda: gs.Variable("alone").o()):
        with pytest.raises(IndexError):
            call()


def test_walking_takes_indices_in_the_documented_order() -> None:
    tensor = gs.Variable("t")
    gs.Node("A", inputs=[gs.Variable("a0"), gs.Variable("a1")], outputs=[tensor])
    gs.Node("B", inputs=[tensor], outputs=[gs.Variable("b0"), gs.Variable("b1")])
    gs.Node("C", inputs=[tensor], outputs=[gs.Variable("c0"), gs.Variable("c1")])
    assert tensor.i(1).name == "a1"
    assert tensor.o(1).name == "c0"
    assert tensor.o(0, 1).name == "b1"
    node = tensor.inputs[0]
    assert node.o(1).op == "C"
    assert tensor.outputs[1].i().op == "A"


@pytest.mark.parametrize("kind", ["variable", "constant"])
def test_copies_are_unlinked(kind: str) -> None:
    tensor = linked(kind)
    new = tensor.copy()
    assert new is not tensor
    assert new == tensor
    assert type(new) is type(tensor)
    assert (new.name, new.dtype, tuple(new.shape)) == (tensor.name, tensor.dtype, tuple(tensor.shape))
    assert list(new.inputs) == list(new.outputs) == []
    assert len(tensor.inputs) == len(tensor.outputs) == 1
    new.name = "other"
    assert tensor.name == "t"
    if kind == "constant":
        assert new.values is tensor.values


def test_both_directions_are_visible_through_every_node() -> None:
    tensor = linked("variable")
    maker = tensor.inputs[0]
    tensor.to_constant(np.zeros(1))
    tensor.inputs.clear()
    assert list(maker.outputs) == []
    assert len(tensor.outputs) == 1


def test_text() -> None:
    assert str(gs.Variable("x", np.float32, (1, 2))).startswith("Variable (x): (shape=(1, 2), dtype=")
    tensor = gs.Constant("c", np.array([1.5, 2.5]))
    assert str(tensor).startswith("Constant (c): (shape=(2,), dtype=")
    assert repr(tensor).splitlines()[0] == str(tensor)
    assert "[1.5 2.5]" in repr(tensor)


@pytest.mark.parametrize(
    ("dtype", "text"),
    [(np.float32, "float32"), (np.dtype("int8"), "int8"), (onnx.TensorProto.BFLOAT16, "BFLOAT16"), (None, "None"), (object, "object"), (str, "object"),
     (99, "99"), ("no type", "no type"), (np.dtype(">f4"), ">f4")],
)  # fmt: skip
def test_text_of_element_types(dtype: Any, text: str) -> None:
    assert str(gs.Variable("x", dtype, ())) == f"Variable (x): (shape=(), dtype={text})"


@pytest.mark.parametrize("shape", [None, (), [], (1, "n"), [1, None], ("",), [-1]])
def test_shapes_are_kept_and_shown_as_given(shape: Any) -> None:
    tensor = gs.Variable("x", np.float32, shape)
    assert tensor.shape is shape
    assert f"(shape={shape}, " in str(tensor)


def test_to_variable_takes_the_exported_type() -> None:
    tensor = gs.Constant("c", np.ones(2, np.float32), export_dtype=np.float16).to_variable(shape=(2,))
    assert (tensor.dtype, tensor.shape, tensor.type) == (np.float16, (2,), "tensor_type")
    assert gs.Variable("v", np.int8, (3,)).to_variable().dtype == np.int8


# -- lazy values ----------------------------------------------------------------------------------


def test_lazy_values_know_their_kind_without_reading() -> None:
    values = lazy(np.arange(6, dtype=np.int64).reshape(2, 3))
    assert (tuple(values.shape), values.dtype, values.nbytes) == ((2, 3), np.int64, 48)
    assert values.tensor.name == "w"
    assert values.load().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert str(values).startswith("LazyValues (shape=")
    assert "dtype=" in repr(values)


def test_lazy_values_of_a_value_description() -> None:
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 5, 5))
    values = module("ir.tensor").LazyValues(info)
    assert (tuple(values.shape), values.dtype, values.nbytes) == ((1, 5, 5), np.float32, 100)


def test_a_constant_loads_once_and_only_when_read() -> None:
    lazy_type = module("ir.tensor").LazyValues
    tensor = gs.Constant("c", lazy(np.ones((2, 2), np.float32)))
    for look in (lambda: tensor.shape, lambda: tensor.dtype, lambda: str(tensor), lambda: repr(tensor), tensor.copy, lambda: tensor.export_dtype):
        look()
        assert isinstance(tensor._values, lazy_type)
    assert isinstance(tensor.copy()._values, lazy_type)
    first = tensor.values
    assert isinstance(first, np.ndarray)
    assert tensor.values is first
    assert isinstance(tensor._values, np.ndarray)


def test_export_copy_and_fold_leave_weights_lazy() -> None:
    weights = [gs.Constant(f"w{k}", lazy(np.full((2, 2), k, np.float32))) for k in range(3)]
    x = y = gs.Variable("x", np.float32, (2, 2))
    nodes = []
    for k, weight in enumerate(weights):
        after = gs.Variable(f"y{k}", np.float32, (2, 2))
        nodes.append(gs.Node("Add", inputs=[y, weight], outputs=[after]))
        y = after
    graph = gs.Graph(nodes, [x], [y], opset=13)
    graph.fold_constants()
    gs.export_onnx(graph)
    graph.copy()
    graph.cleanup().toposort()
    assert all(isinstance(w._values, module("ir.tensor").LazyValues) for w in weights)


# -- sparse values --------------------------------------------------------------------------------


def sparse(indices: Any, dims: tuple[int, ...] = (3, 4), *, raw: bool = False) -> Any:
    numbers = np.float32([1, 2, 3])
    make = onnx.numpy_helper.from_array if raw else (lambda a, n: onnx.helper.make_tensor(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.flatten().tolist()))
    return onnx.helper.make_sparse_tensor(make(numbers, "s"), make(np.asarray(indices, np.int64), "s_indices"), dims)


@pytest.mark.parametrize("indices", [[1, 5, 11], [[0, 1], [1, 1], [2, 3]]])
def test_sparse_values_load_dense(indices: Any) -> None:
    values = module("ir.tensor").SparseValues(sparse(indices))
    assert type(values) is module("ir.tensor").SparseValues
    assert (tuple(values.shape), values.dtype, values.nbytes) == ((3, 4), np.float32, 48)
    expected = np.zeros((3, 4), np.float32)
    expected[0, 1], expected[1, 1], expected[2, 3] = 1, 2, 3
    assert np.array_equal(values.load(), expected)
    assert str(values).startswith("SparseValues (shape=")
    tensor = gs.Constant("s", values)
    assert type(tensor._values) is module("ir.tensor").SparseValues
    assert np.array_equal(tensor.values, expected)


def test_sparse_indices_of_another_rank_are_refused() -> None:
    with pytest.raises(gs.OnnxGraphSurgeonException):
        module("ir.tensor").SparseValues(sparse(np.zeros((3, 1, 1)))).load()
