import copy
import pickle

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import onnx_gs as gs
from onnx_gs.io import tensor_data
from onnx_gs.io.codec import ProtoCodec
from onnx_gs.ir import dtypes

CODEC = ProtoCodec()


def node(**attributes):
    return helper.make_node("Op", ["x"], ["y"], **attributes)


def test_equal_attributes_have_one_signature():
    assert CODEC.signature(node(axis=1, mode="a")) == CODEC.signature(node(axis=1, mode="a"))
    assert CODEC.signature(node()) == ()
    several = [node(axis=1), node(axis=2), node(axis=1.0), node(axis=[1]), node(other=1), node(axis=1, other=1)]
    assert len({CODEC.signature(one) for one in several}) == len(several)


def test_attributes_that_hold_more_than_numbers_and_texts_have_no_signature():
    untyped = node(axis=1)
    untyped.attribute[0].ClearField("type")  # as in old models
    body = helper.make_graph([], "b", [], [])
    for one in (untyped, node(value=numpy_helper.from_array(np.zeros(2))), node(body=body), node(axis=1, body=body)):
        assert CODEC.signature(one) is None


@pytest.mark.parametrize(("name", "value"), [("value_int", 3), ("value_ints", [1, 2]), ("value_float", 0.5), ("value_floats", [0.5, 1.0]), ("axis", 1)])
def test_the_only_attribute_of_a_node_is_told_undecoded(name, value):
    assert CODEC.constant(node(**{name: value})) == (name, value)


def test_a_weight_as_the_only_attribute_is_lazy():
    name, lazy = CODEC.constant(node(value=numpy_helper.from_array(np.arange(3))))
    assert name == "value"
    assert lazy.load().tolist() == [0, 1, 2]


def test_other_nodes_have_no_such_attribute():
    reference = node(axis=1)
    reference.attribute[0].CopyFrom(AttributeProto(name="axis", type=AttributeProto.INT, ref_attr_name="of_the_function"))
    untyped = node(axis=1)
    untyped.attribute[0].ClearField("type")
    for one in (node(), node(axis=1, other=2), node(mode="text"), reference, untyped):
        assert CODEC.constant(one) is None


@pytest.mark.parametrize("stored", [
    numpy_helper.from_array(np.zeros((2, 3), np.float32)), numpy_helper.from_array(np.zeros((0, 3), np.int8)),
    TensorProto(data_type=TensorProto.INT4, dims=[3], raw_data=b"\x21\x03"), TensorProto(data_type=TensorProto.BFLOAT16, dims=[2], raw_data=bytes(4)),
])  # fmt: skip
def test_bytes_are_those_of_the_dense_array(stored):
    assert tensor_data.nbytes_of(stored) == gs.LazyValues(stored).nbytes == gs.LazyValues(stored).load().nbytes


def test_bytes_of_sparse_weights_and_of_types_that_nobody_knows():
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(np.ones(2, np.float32)), numpy_helper.from_array(np.arange(2)), [5, 4])
    assert tensor_data.nbytes_of(sparse) == 80
    assert tensor_data.nbytes_of(TensorProto(data_type=99, dims=[4])) == 0


def test_element_types_are_one_object_each():
    for known in dtypes.ALL:
        assert pickle.loads(pickle.dumps(known)) is known
        assert copy.deepcopy(known) is known
        assert copy.copy(known) is known
    assert dtypes.find(ml_dtypes.bfloat16) is dtypes.BFLOAT16
    assert dtypes.BFLOAT16.number == onnx.TensorProto.BFLOAT16
