import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gs.errors import GraphError, OnnxGsError, UnsupportedTypeError
from onnx_gs.io import tensor_data
from onnx_gs.io.contract import dtype_to_onnx
from onnx_gs.io.exporter import export_onnx
from onnx_gs.ir import Constant, Graph, LazyValues, Node, SparseValues, Variable, dtypes

NUMERIC = [t for t in dtypes.ALL if t.kind != "string" and hasattr(TensorProto, t.name)]
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9)


def sample(known, count, seed=0):
    rng = np.random.default_rng(seed)
    if known.kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if known.kind in {"int", "uint"}:
        low = -(1 << min(known.bits, 8) - 1) if known.kind == "int" else 0
        return rng.integers(low, low + (1 << min(known.bits, 8)), count).astype(known.numpy)
    if known.kind == "complex":
        return (rng.standard_normal(count) + 1j * rng.standard_normal(count)).astype(known.numpy)
    return rng.standard_normal(count).astype(known.numpy)


def same_bytes(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("known", NUMERIC, ids=lambda t: t.name)
@pytest.mark.parametrize("count", SIZES)
def test_values_survive_packing(known, count):
    values = sample(known, count)
    stored = tensor_data.encode(values, "w")
    assert stored.data_type == known.number
    assert len(stored.raw_data) == known.nbytes(count)
    assert same_bytes(tensor_data.load(stored), values)


@pytest.mark.parametrize("known", [t for t in NUMERIC if t.number <= 23 and t.kind != "complex"], ids=lambda t: t.name)
def test_typed_fields_give_the_values_of_raw_data(known):
    values = sample(known, 5)
    try:
        typed = helper.make_tensor("w", known.number, [5], values.tolist() if known.number <= 13 else values)
    except (TypeError, ValueError, KeyError) as error:
        pytest.skip(f"this onnx cannot make one: {error}")
    loaded = tensor_data.load(typed)
    assert loaded.dtype == known.numpy
    assert np.array_equal(loaded.astype(np.complex128), numpy_helper.to_array(typed).astype(np.complex128))


def test_complex_typed_fields_hold_pairs():
    stored = TensorProto(data_type=TensorProto.COMPLEX64, dims=[2], float_data=[1, 2, 3, -4])
    assert tensor_data.load(stored).tolist() == [1 + 2j, 3 - 4j]


def test_packing_is_the_one_of_the_specification():
    assert tensor_data.pack(np.array([0.5, 0, 1, 0]).astype(ml_dtypes.float4_e2m1fn), dtypes.FLOAT4E2M1) == b"\x01\x02"
    assert tensor_data.pack(np.array([1, -2, 3]).astype(ml_dtypes.int4), dtypes.INT4) == b"\xe1\x03"
    assert tensor_data.pack(np.array([1, 2, 3, 0, 1]).astype(ml_dtypes.uint2), dtypes.UINT2) == b"\x39\x01"


def test_raw_arrays_are_read_only_and_typed_ones_are_not():
    raw = numpy_helper.from_array(np.arange(3, dtype=np.float32))
    assert not tensor_data.load(raw).flags.writeable
    assert tensor_data.load(helper.make_tensor("w", TensorProto.FLOAT, [3], [0, 1, 2])).flags.writeable


def test_strings_keep_bytes_that_are_no_text():
    stored = helper.make_tensor("s", TensorProto.STRING, [2], [b"\xff", "é".encode()])
    assert tensor_data.load(stored).tolist() == [b"\xff", "é"]
    assert tensor_data.encode(tensor_data.load(stored), "s") == stored


def test_big_endian_arrays_are_stored_little_endian():
    assert tensor_data.encode(np.array([1, 2], ">i4"), "w").raw_data == np.array([1, 2], "<i4").tobytes()


def tensor(**fields):
    made = TensorProto(name="broken", data_type=TensorProto.FLOAT)
    for field, value in fields.items():
        if isinstance(value, list):
            getattr(made, field).extend(value)
        else:
            setattr(made, field, value)
    return made


@pytest.mark.parametrize(
    "broken",
    [
        tensor(dims=[3], raw_data=b"\0" * 8),
        tensor(dims=[3], float_data=[1, 2]),
        tensor(dims=[-1], raw_data=b""),
        tensor(dims=[1 << 62, 1 << 62], raw_data=b"\0" * 4),
        tensor(dims=[1 << 40]),
        tensor(dims=[1], data_type=99, raw_data=b"\0"),
        tensor(dims=[1], data_type=0, raw_data=b"\0"),
        tensor(dims=[2], int32_data=[1, 2]),
    ],
)
def test_malformed_tensors_are_named(broken):
    with pytest.raises(GraphError) as caught:
        tensor_data.load(broken)
    assert "broken" in str(caught.value)


def sparse(values, indices, dims, name="s", raw=True):
    made = onnx.SparseTensorProto(dims=dims)
    if raw:
        made.values.CopyFrom(numpy_helper.from_array(np.asarray(values), name))
        made.indices.CopyFrom(numpy_helper.from_array(np.asarray(indices, np.int64)))
    else:
        made.values.CopyFrom(helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values))
        made.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, np.shape(indices), np.ravel(indices)))
    return made


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_values_load_dense(indices, raw):
    loaded = SparseValues(sparse(np.float32([7, 8]), indices, [2, 3], raw=raw)).load()
    assert same_bytes(loaded, np.float32([[0, 7, 0], [0, 0, 8]]))


@pytest.mark.parametrize(
    ("indices", "dims"), [([1, 6], [2, 3]), ([-1, 0], [2, 3]), ([[0, 1], [1, 3]], [2, 3]), ([[0], [1]], [2, 3]), ([0, 1, 2], [2, 3]), ([0, 1], [-2, 3])]
)
def test_bad_indices_are_one_error_that_names_the_tensor(indices, dims):
    with pytest.raises(GraphError) as caught:
        tensor_data.load(sparse(np.float32([7, 8]), indices, dims))
    assert "'s'" in str(caught.value)


def constant_model(constant):
    y = Variable("y", constant.export_dtype, constant.shape)
    return export_onnx(Graph([Node("Identity", inputs=[constant], outputs=[y])], outputs=[y], opset=21))


def test_export_dtype_converts_as_cast_does():
    constant = Constant("w", np.float32([1e6, -1e6, np.inf, 0.3, np.nan]), export_dtype=ml_dtypes.float8_e4m3fn)
    stored = constant_model(constant).graph.initializer[0]
    assert stored.data_type == TensorProto.FLOAT8E4M3FN
    loaded = tensor_data.load(stored).astype(np.float32)
    assert loaded[:3].tolist() == [448, -448, 448]
    assert np.isnan(loaded[4])
    assert constant.dtype == np.float32


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (np.float32([2.7, -2.7]), dtypes.INT32, [2, -2]),
        (np.float32([0.0, -0.0, 0.1]), dtypes.BOOL, [False, False, True]),
        (np.int64([300, -1]), dtypes.UINT8, [44, 255]),
        (np.int64([17, -9]), dtypes.INT4, [1, 7]),
        (np.float32([1.1, 1.0, 3.0]), dtypes.FLOAT8E8M0, [2, 1, 4]),
        (np.float32([7, -100, 0.26]), dtypes.FLOAT4E2M1, [6, -6, 0.5]),
        (np.array(["1.5", b"2"], object), dtypes.FLOAT, [1.5, 2]),
    ],
)
def test_cast_rules(values, wanted, expected):
    assert tensor_data.cast(values, wanted).astype(object).tolist() == expected


def test_a_type_that_onnx_lacks_raises_when_it_is_asked_for(monkeypatch):
    class Older:
        FLOAT = 1

    monkeypatch.setattr(onnx, "TensorProto", Older)
    with pytest.raises(RuntimeError, match=r"^Current ONNX package does not support INT4\. Please upgrade ONNX to the latest version\.$"):
        dtype_to_onnx(ml_dtypes.int4)
    with pytest.raises(UnsupportedTypeError):
        Constant("w", np.zeros(1, np.float32), export_dtype=ml_dtypes.int4)


def test_unknown_element_types_stay_until_they_are_read():
    stored = TensorProto(name="w", data_type=99, dims=[1], raw_data=b"\1")
    assert LazyValues(stored).dtype == 99
    with pytest.raises(OnnxGsError, match="unknown"):
        LazyValues(stored).load()


def test_kinds_of_weights_are_those_of_their_values_now(tmp_path):
    import onnx_gs as gs

    weights = {n: gs.Constant(n, np.zeros((2,) * rank, dtype)) for n, rank, dtype in [("a", 1, np.float32), ("b", 2, np.int64), ("c", 3, np.int8)]}
    x, outputs = gs.Variable("x", np.float32, (2,)), [gs.Variable(f"y_{n}", np.float32) for n in weights]
    nodes = [gs.Node("Custom", domain="local", inputs=[x, w], outputs=[y]) for w, y in zip(weights.values(), outputs)]
    gs.save(gs.Graph(nodes, [x], outputs, opset=18), tmp_path / "m.onnx")

    def kinds(edit):
        graph = gs.load(tmp_path / "m.onnx")
        found = graph.tensors()
        edit(found)
        return tensor_data.kinds_of([found[n] for n in weights]), tensor_data.kinds_of([t for t in graph.copy().tensors().values() if t.name in weights])

    assert kinds(lambda _: None) == ({(1, 1), (7, 2), (3, 3)},) * 2
    assert kinds(lambda t: t["a"].values.sum()) == ({(1, 1), (7, 2), (3, 3)},) * 2
    assert kinds(lambda t: setattr(t["a"], "values", np.zeros((2, 2), np.uint8))) == ({(2, 2), (7, 2), (3, 3)},) * 2
    assert kinds(lambda t: t["b"].to_constant(np.zeros((), np.float64))) == ({(1, 1), (11, 0), (3, 3)},) * 2
    assert kinds(lambda t: t["c"].to_variable(np.int8, (2,)).to_constant(np.zeros(1, np.bool_))) == ({(1, 1), (7, 2), (9, 1)},) * 2


def test_an_empty_tensor_of_impossible_dims_is_one_error():
    proto = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[0, 1 << 62], raw_data=b"")
    with pytest.raises(GraphError, match="too large"):
        LazyValues(proto).load()


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("count", [0, 1, 3, 40_000])
def test_packed_fields_are_read_bit_for_bit(kind, count):
    values = np.random.default_rng(0).standard_normal(count).astype(helper.tensor_dtype_to_np_dtype(kind))
    values[:3] = [np.nan, -0.0, np.inf][: values[:3].size]
    proto = helper.make_tensor("w", kind, [count], values.tolist())
    assert not proto.HasField("raw_data")
    found = LazyValues(proto).load()
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()
    assert found.flags.writeable
