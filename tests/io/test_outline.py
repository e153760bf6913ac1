import io
import subprocess
import sys

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnx_gs.errors import ModelFileError
from onnx_gs.io import outline as outlines, wire
from onnx_gs.io.external_data import initializers
from onnx_gs.io.outline import inline_region, outline

LARGE = 8 << 10


@pytest.fixture
def walked(monkeypatch):
    """Walk files of any size, as if they were large."""
    monkeypatch.setattr(outlines, "SMALL_FILE", 0)


def weight(name, size=LARGE, seed=0):
    return TensorProto(name=name, data_type=TensorProto.UINT8, dims=[size], raw_data=np.random.default_rng(seed).bytes(size))


def every_place():
    """A model with a large weight wherever a model can have one."""
    sparse = helper.make_sparse_tensor(weight("sv", seed=1), numpy_helper.from_array(np.arange(LARGE), "si"), [LARGE])
    inner = helper.make_graph([helper.make_node("Constant", [], ["k"], value=weight("deep", seed=2))], "inner", [], [], [weight("iw", seed=3)])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=weight("attr", seed=4)),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        helper.make_node("Custom", [], ["z"], domain="d", tensors=[weight("l0", seed=5), weight("l1", 3, seed=6)], graphs=[inner, inner]),
        helper.make_node("Constant", [], ["s"], sparse_value=sparse),
    ]
    nodes[2].attribute.append(onnx.AttributeProto(name="st", type=onnx.AttributeProto.SPARSE_TENSORS, sparse_tensors=[sparse]))
    graph = helper.make_graph(nodes, "g", [], [], [weight("w", seed=7), weight("small", 10, seed=8)], sparse_initializer=[sparse])
    function = helper.make_function(
        "d", "F", [], ["o"], [helper.make_node("Constant", [], ["o"], value=weight("fn", seed=9))], [helper.make_opsetid("", 17)]
    )
    function.attribute_proto.append(helper.make_attribute("default", weight("default", seed=10)))
    return helper.make_model(graph, functions=[function], opset_imports=[helper.make_opsetid("", 17)])


def restored(model, content):
    """Put the left-out weights back."""
    count = 0

    def visit(message):
        nonlocal count
        if isinstance(message, TensorProto):
            found = inline_region(message)
            if found:
                count += 1
                message.raw_data = content[found[0] : found[0] + found[1]]
                del message.external_data[-1]
            return
        for field, value in message.ListFields():
            if field.message_type is not None:
                for each in [value] if isinstance(value, onnx.onnx_ml_pb2.GraphProto) or hasattr(value, "ListFields") else value:
                    visit(each)

    visit(model)
    return count


def test_weights_stay_in_the_file_wherever_they_are(tmp_path, walked):
    model = every_place()
    content = model.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    found, file, _ = outline(path)
    assert file is not None
    assert len(found.SerializeToString()) < 6000
    assert restored(found, content) == 19
    assert found == model


def test_small_files_are_parsed_whole(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(every_place().SerializeToString())
    assert outline(path) == (every_place(), None, False)


@pytest.mark.parametrize("walk", [False, True])
def test_streams(monkeypatch, walk):
    model = every_place()
    content = model.SerializeToString()

    class Dribble(io.RawIOBase):
        """Gives a few bytes at a time, as pipes do."""

        def __init__(self):
            self.rest = io.BytesIO(content)

        def read(self, size=-1):
            return self.rest.read(min(size, 777))

    if walk:
        monkeypatch.setattr(outlines, "SMALL_FILE", 1000)
    for stream in (io.BytesIO(content), Dribble()):
        found, file, _ = outlines.outline_stream(stream)
        assert (file is not None) == walk
        if walk:
            assert file.read(0, file.size) == content
            restored(found, content)
        assert found == model


def _repeated(*tensors):
    """An attribute whose field ``t`` comes several times; protobuf merges them."""
    attribute = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR).SerializeToString()
    for tensor in tensors:
        content = tensor.SerializeToString()
        attribute += wire.header(5, len(content)) + content
    node = onnx.NodeProto(op_type="Constant", output=["c"]).SerializeToString() + wire.header(5, len(attribute)) + attribute
    graph = wire.header(1, len(node)) + node
    return onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString() + wire.header(7, len(graph)) + graph


def test_repeated_fields_mean_what_protobuf_says(tmp_path, walked):
    path = tmp_path / "m.onnx"
    for content in (
        _repeated(weight("a", seed=1), weight("b", seed=2)),
        _repeated(weight("a", seed=1), TensorProto(raw_data=b"x")),
        _repeated(TensorProto(raw_data=b"x"), weight("a", seed=1)),
    ):
        path.write_bytes(content)
        found, *_ = outline(path)
        restored(found, content)
        assert found == onnx.ModelProto.FromString(content)


def test_raw_data_twice_in_one_tensor(tmp_path, walked):
    tensor = weight("a", seed=1).SerializeToString() + TensorProto(raw_data=b"second").SerializeToString()
    graph = wire.header(5, len(tensor)) + tensor
    content = wire.header(7, len(graph)) + graph
    (tmp_path / "m.onnx").write_bytes(content)
    assert outline(tmp_path / "m.onnx").model.graph.initializer[0].raw_data == b"second"


def test_numbers_one_by_one_are_left_to_protobuf(tmp_path, walked):
    tensor = TensorProto(name="w", data_type=1, dims=[20_000]).SerializeToString() + b"\x25\x00\x00\x80\x3f" * 20_000
    graph = wire.header(5, len(tensor)) + tensor
    (tmp_path / "m.onnx").write_bytes(wire.header(7, len(graph)) + graph)
    found, file, _ = outline(tmp_path / "m.onnx")
    assert file is None
    assert list(found.graph.initializer[0].float_data) == [1.0] * 20_000


def test_no_file_can_pass_for_one_of_which_weights_were_left_out(tmp_path, walked):
    model = helper.make_model(helper.make_graph([], "g", [], [], [weight("w"), TensorProto(name="evil", data_type=2, dims=[5])]))
    model.graph.initializer[1].external_data.add(key="onnx_gs.inline", value="0,5")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = outline(tmp_path / "m.onnx").model.graph.initializer
    assert inline_region(found[0]) is not None
    assert inline_region(found[1]) is None
    script = "from onnx_gs.io import wire; print(wire.INLINE_KEY)"
    keys = {subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(keys) == 2


def test_unknown_fields_are_kept(tmp_path, walked):
    content = every_place().SerializeToString() + wire.header(999, 20_000) + bytes(20_000)
    (tmp_path / "m.onnx").write_bytes(content)
    found, *_ = outline(tmp_path / "m.onnx")
    restored(found, content)
    assert found == onnx.ModelProto.FromString(content)


def test_large_file_takes_the_memory_of_its_structure(tmp_path):
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[1 << 40]).SerializeToString() + wire.header(9, 1 << 40)
    length = len(tensor) + (1 << 40)
    graph = wire.header(5, length) + tensor
    head = (
        onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString() + wire.header(7, len(graph) + (1 << 40)) + graph
    )
    path = tmp_path / "terabyte.onnx"
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + (1 << 40))
    found, file, _ = outline(path)
    assert inline_region(found.graph.initializer[0]) == (len(head), 1 << 40)
    assert file.size == len(head) + (1 << 40)


# -- bad input ------------------------------------------------------------------------------------


def small_model():
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, [2])])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body), helper.make_node("Add", ["y", "w"], ["z"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("z", 1, ["n"])],
        [numpy_helper.from_array(np.ones(2, np.float32), "w"), weight("v", 5000)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def attempt(path, content):
    path.write_bytes(content)
    try:
        found = outline(path)
    except ModelFileError as error:
        assert "byte" in error.what or error.what == "the file is empty"  # noqa: PT017
        assert error.where.startswith("file '")  # noqa: PT017
        return None
    assert found.model.HasField("graph")
    return found


@pytest.mark.parametrize("walk", [False, True])
def test_truncated_at_every_length(tmp_path, monkeypatch, walk):
    if walk:
        monkeypatch.setattr(outlines, "SMALL_FILE", 0)
    content = small_model()
    opened = [
        n
        for n in [*range(0, 600, 3), *range(600, len(content), 397), *range(len(content) - 60, len(content))]
        if attempt(tmp_path / "m.onnx", content[:n])
    ]
    # Only where a field of the model ends is the rest a message again: behind the graph, without opsets.
    assert len(opened) == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes(tmp_path_factory, walk, flips):
    content = bytearray(small_model())
    for at, value in flips:
        content[at] = value
    with pytest.MonkeyPatch.context() as patch:
        if walk:
            patch.setattr(outlines, "SMALL_FILE", 0)
        attempt(tmp_path_factory.getbasetemp() / "flipped.onnx", bytes(content))


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.binary(max_size=200))
def test_garbage(tmp_path_factory, walk, content):
    with pytest.MonkeyPatch.context() as patch:
        if walk:
            patch.setattr(outlines, "SMALL_FILE", 0)
        attempt(tmp_path_factory.getbasetemp() / "garbage.onnx", content)


_messages = st.recursive(
    st.binary(max_size=10),
    lambda inside: st.lists(
        st.tuples(st.sampled_from([1, 5, 6, 7, 9, 10, 11, 13, 14, 15, 22, 23, 25]), inside, st.sampled_from([0, 0, 0, 1, -1, 1 << 31, 1 << 62]))
    ).map(lambda fields: b"".join(wire.header(n, max(len(c) + off, 0)) + c for n, c, off in fields)),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(_messages)
def test_nested_messages_with_wrong_lengths(tmp_path_factory, content):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlines, "SMALL_FILE", 0)
        patch.setattr(outlines, "LARGE_WEIGHT", 2)
        attempt(tmp_path_factory.getbasetemp() / "nested.onnx", content)


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize("depth", [40, 3000])
def test_nesting_bomb(tmp_path, monkeypatch, walk, depth):
    if walk:
        monkeypatch.setattr(outlines, "SMALL_FILE", 0)
    graph = weight("w", 5000).SerializeToString()
    graph = wire.header(5, len(graph)) + graph
    for _ in range(depth):
        for number in (6, 5, 1):
            graph = wire.header(number, len(graph)) + graph
    assert attempt(tmp_path / "bomb.onnx", wire.header(7, len(graph)) + graph) is None


def test_large_zero_file_is_refused_at_once(tmp_path):
    path = tmp_path / "zeros.onnx"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelFileError, match="field number 0 at byte 0"):
        outline(path)


def test_structure_over_two_gigabytes_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "zeros.onnx"
    with open(path, "wb") as file:
        file.write(wire.header(500, 1 << 40))
        file.truncate(file.tell() + (1 << 40))
    with pytest.raises(ModelFileError, match="more than protobuf can parse"):
        outline(path)


def test_weights_are_found_again(tmp_path, walked):
    (tmp_path / "m.onnx").write_bytes(every_place().SerializeToString())
    found, file, _ = outline(tmp_path / "m.onnx")
    offset, length = inline_region(next(iter(initializers(found))))
    assert file.read(offset, length) == weight("w", seed=7).raw_data
