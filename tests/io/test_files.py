import gc
import io
import os
import pickle
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from onnx import TensorProto, helper, numpy_helper

import onnx_gs as gs
from onnx_gs.errors import GraphError, GraphTypeError, ModelFileError, OnnxGsError
from onnx_gs.io import outline as outlines, regions, wire
from onnx_gs.io.external_data import initializers
from onnx_gs.io.files import load, save
from onnx_gs.ir.tensor import Constant


def weight(name, size=9000, seed=0):
    return numpy_helper.from_array(np.random.default_rng(seed).random(size, np.float32), name)


def model_of(*weights, opset=17):
    """Adds up its weights; also one in a branch, one in an attribute."""
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "bw"], ["b"])], "branch", [], [helper.make_tensor_value_info("b", 1, ["n"])], [weight("bw", 9000, 50)]
    )
    nodes = [
        helper.make_node("If", ["c"], ["y0"], then_branch=branch, else_branch=branch, name="if"),
        helper.make_node("Constant", [], ["k"], value=weight("k", 9000, 51)),
        helper.make_node("Add", ["y0", "k"], ["y1"], name="add"),
    ]
    last = "y1"
    for i, w in enumerate(weights):
        nodes.append(helper.make_node("Add", [last, w.name], [f"z{i}"]))
        last = f"z{i}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, [9000])],
        [helper.make_tensor_value_info(last, 1, [9000])],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.fixture
def walked(monkeypatch):
    """Walk files of any size, as if they were large."""
    monkeypatch.setattr(outlines, "SMALL_FILE", 0)


@pytest.fixture
def model():
    return model_of(weight("v", seed=1), weight("w", seed=2))


def files(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("walk", [False, True])
def test_what_nobody_touched_is_saved_as_it_was(tmp_path, model, monkeypatch, walk):
    if walk:
        monkeypatch.setattr(outlines, "SMALL_FILE", 0)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    for target in (tmp_path / "n.onnx", path, path):
        save(load(path), target)
        assert onnx.load(target) == model
    save(load(path), tmp_path / "e.onnx", external_data="w.data")
    save(load(tmp_path / "e.onnx"), tmp_path / "f.onnx")
    assert onnx.load(tmp_path / "f.onnx") == model
    assert files(tmp_path) == ["e.onnx", "f.onnx", "m.onnx", "n.onnx", "w.data"]


def test_weights_are_mapped_when_their_values_are_asked_for(tmp_path, model, walked):
    onnx.save(model, tmp_path / "m.onnx")
    graph = load(tmp_path / "m.onnx")
    for name, stored in (("v", weight("v", seed=1)), ("w", weight("w", seed=2))):
        values = graph.tensors()[name].values
        assert values.tobytes() == stored.raw_data
        assert not values.flags.writeable
        assert not values.flags.owndata
    assert graph.nodes[1].attrs["value"].values.tobytes() == weight("k", seed=51).raw_data


def test_values_survive_that_the_file_is_replaced_or_removed(tmp_path, model, walked):
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    graph = load(path)
    save(load(path), path)
    path.unlink()
    assert graph.tensors()["v"].values.tobytes() == weight("v", seed=1).raw_data
    save(graph, path)
    assert onnx.load(path) == model


@pytest.mark.parametrize("external", [None, "w.data", "keep"])
def test_edited_weights_are_saved(tmp_path, model, walked, external):
    path = tmp_path / "m.onnx"
    save(_loaded(model, tmp_path), path, external_data=external)
    graph = load(path)
    graph.tensors()["v"].values = np.full(9000, 7, np.float32)
    changed = graph.tensors()["w"].values.copy()
    changed[0] = 5
    graph.tensors()["w"].values = changed
    graph.nodes[2].attrs["edited"] = 1
    save(graph, path, external_data=external)
    again = load(path)
    assert np.array_equal(again.tensors()["v"].values, np.full(9000, 7, np.float32))
    assert np.array_equal(again.tensors()["w"].values, changed)
    body = next(iter(again.nodes[0].attrs["then_branch"].nodes))
    assert body.inputs[1].values.tobytes() == weight("bw", seed=50).raw_data
    found = onnx.load(path)
    assert found.graph.node[2].attribute[0].name == "edited"
    assert [t.name for t in initializers(found)] == ["v", "w", "bw", "bw"]


def _loaded(model, folder):
    onnx.save(model, folder / "source.onnx")
    return load(folder / "source.onnx")


def test_streams(model, monkeypatch):
    content = model.SerializeToString()
    for limit in (outlines.SMALL_FILE, 1000):
        monkeypatch.setattr(outlines, "SMALL_FILE", limit)
        graph = load(io.BytesIO(content))
        target = io.BytesIO()
        save(graph, target)
        assert onnx.ModelProto.FromString(target.getvalue()) == model
    with pytest.raises(ModelFileError, match="no place for external data"):
        save(graph, io.BytesIO(), external_data="w.data")


def test_external_data_of_a_stream_is_in_the_working_directory(tmp_path, model, monkeypatch):
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    stream = io.BytesIO((tmp_path / "m.onnx").read_bytes())
    with pytest.raises(ModelFileError, match="No such file"):
        load(stream)
    monkeypatch.chdir(tmp_path)
    stream.seek(0)
    assert load(stream).tensors()["v"].values.tobytes() == weight("v", seed=1).raw_data


def test_pickles_hold_no_weights(tmp_path, model, walked):
    onnx.save(model, tmp_path / "m.onnx")
    stored = pickle.dumps(load(tmp_path / "m.onnx"))
    assert len(stored) < 20_000
    graph = pickle.loads(stored)
    save(graph, tmp_path / "n.onnx")
    assert onnx.load(tmp_path / "n.onnx") == model


def test_a_terabyte_is_loaded_edited_and_saved(tmp_path):
    ones = helper.make_tensor_value_info
    tensors = [TensorProto(name=f"w{i}", data_type=1, dims=[1 << 34], data_location=1) for i in range(16)]
    tensors.append(TensorProto(name="small", data_type=1, dims=[512], data_location=1))
    for i, t in enumerate(tensors):
        t.external_data.add(key="location", value="big/w.data")
        t.external_data.add(key="offset", value=str(i << 36))
    graph = helper.make_graph([helper.make_node("Sum", [t.name for t in tensors], ["y"])], "g", [], [ones("y", 1, None)], tensors)
    (tmp_path / "big").mkdir()
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    with open(tmp_path / "big" / "w.data", "wb") as file:
        file.truncate((1 << 40) + 2048)
    before = os.stat(tmp_path / "big" / "w.data")
    start = time.perf_counter()
    loaded = load(tmp_path / "m.onnx")
    edited = loaded.tensors()["small"].values + np.float32(3)
    loaded.tensors()["small"].values = edited
    save(loaded, tmp_path / "m.onnx", external_data="keep")
    assert time.perf_counter() - start < 5  # about a hundredth of that
    after = os.stat(tmp_path / "big" / "w.data")
    assert after.st_ino == before.st_ino
    assert after.st_blocks - before.st_blocks < 100
    again = load(tmp_path / "m.onnx")
    assert np.array_equal(again.tensors()["small"].values, np.full(512, 3, np.float32))
    assert again.tensors()["w15"].values[-1] == 0
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert list(stored)[:16] == tensors[:16]


def test_two_weights_of_one_place_are_stored_once(tmp_path):
    graph = _loaded(model_of(weight("v", seed=1), weight("w", seed=1)), tmp_path)
    shared = np.ones(9000, np.float32)
    for name in "vw":
        graph.tensors()[name].values = shared
    save(graph, tmp_path / "m.onnx", external_data="w.data")
    offsets = {
        t.name: [e.value for e in t.external_data if e.key == "offset"]
        for t in initializers(onnx.load(tmp_path / "m.onnx", load_external_data=False))
    }
    assert offsets["v"] == offsets["w"]
    again = load(tmp_path / "m.onnx")
    save(again, tmp_path / "n.onnx", external_data="n.data")
    assert (tmp_path / "n.data").stat().st_size == (tmp_path / "w.data").stat().st_size


def test_thousands_of_external_files(tmp_path):
    count = 1500
    tensors = []
    for i in range(count):
        (tmp_path / f"{i}.bin").write_bytes(np.full(20, i, np.float32).tobytes())
        tensors.append(TensorProto(name=f"w{i}", data_type=1, dims=[20], data_location=1))
        tensors[-1].external_data.add(key="location", value=f"{i}.bin")
    graph = helper.make_graph(
        [helper.make_node("Sum", [t.name for t in tensors], ["y"])], "g", [], [helper.make_tensor_value_info("y", 1, None)], tensors
    )
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    loaded = load(tmp_path / "m.onnx")
    assert len(os.listdir("/proc/self/fd")) < 300
    assert [int(t.values[0]) for t in loaded.tensors().values() if isinstance(t, Constant)] == list(range(count))
    assert len(os.listdir("/proc/self/fd")) < 600
    save(loaded, tmp_path / "one.onnx")
    assert onnx.load(tmp_path / "one.onnx").graph.initializer[700].raw_data == np.full(20, 700, np.float32).tobytes()


def test_saving_a_graph_of_new_arrays(tmp_path):
    from onnx_gs.ir import Graph, Node, Variable

    y = Variable("y", np.float32, (5000,))
    graph = Graph(
        [Node("Add", inputs=[Constant("a", np.ones(5000, np.float32)), Constant("b", np.arange(10000, dtype=np.float32)[::2])], outputs=[y])], [], [y]
    )
    for options in ({}, {"external_data": "w.data"}, {"external_data": "keep"}):
        save(graph, tmp_path / "m.onnx", **options)
        found = onnx.load(tmp_path / "m.onnx")
        assert np.array_equal(numpy_helper.to_array(found.graph.initializer[1]), np.arange(10000, dtype=np.float32)[::2])


def test_notes_that_are_no_text_are_kept(tmp_path):
    content = model_of().SerializeToString() + wire.header(6, 3) + b"a\x80b"
    (tmp_path / "m.onnx").write_bytes(content)
    save(load(tmp_path / "m.onnx"), tmp_path / "n.onnx")
    assert onnx.load(tmp_path / "n.onnx") == onnx.ModelProto.FromString(content)


# -- bad input ------------------------------------------------------------------------------------


def small_model():
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, [2])])
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(np.float32([1]), "sv"), numpy_helper.from_array(np.int64([1]), "si"), [2])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
        helper.make_node("Sum", ["y", "w", "s"], ["z"], metadata="m"),
        helper.make_node("F", ["z"], ["q"], domain="d"),
    ]
    nodes[1].attribute.append(helper.make_attribute("sparse", sparse))
    named = helper.make_sparse_tensor(numpy_helper.from_array(np.float32([1]), "s"), numpy_helper.from_array(np.int64([1]), ""), [2])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("q", 1, ["n"])],
        [
            numpy_helper.from_array(np.ones(2, np.float32), "w"),
            numpy_helper.from_array(np.int64([1, 2]), "unused"),
            helper.make_tensor("t", 1, [1], [1.0]),
        ],
        value_info=[helper.make_tensor_sequence_value_info("seq", 1, [2])],
        sparse_initializer=[named],
    )
    function = helper.make_function("d", "F", ["a"], ["o"], [helper.make_node("Neg", ["a"], ["o"])], [helper.make_opsetid("", 17)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("d", 1)], functions=[function])


SMALL = small_model().SerializeToString()


def use(path):
    """Load, touch everything, save: a graph, or one of our errors."""
    try:
        graph = load(path)
        for g in (graph, *graph.subgraphs(recursive=True), *graph.functions):
            for node in g.nodes:
                _ = node.attrs, str(node)
            for t in g.tensors().values():
                _ = t.dtype, t.shape, str(t)
                if isinstance(t, Constant):
                    _ = t.values
        save(graph, os.fspath(path) + ".out")
    except OnnxGsError as error:
        assert str(error)  # noqa: PT017 - there is a text, whichever error it is
        return False
    return True


def fuzz(folder, content, *, walk):
    path = folder / "fuzz.onnx"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        if walk:
            patch.setattr(outlines, "SMALL_FILE", 0)
            patch.setattr(outlines, "LARGE_WEIGHT", 4)
        return use(path)


@pytest.mark.parametrize("walk", [False, True])
def test_the_small_model_is_fine(tmp_path, walk):
    assert fuzz(tmp_path, SMALL, walk=walk)


def test_truncated_at_every_length(tmp_path):
    for length in range(len(SMALL)):
        fuzz(tmp_path, SMALL[:length], walk=bool(length % 2))


bounded = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@bounded
@given(st.booleans(), st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes(tmp_path, walk, flips):
    content = bytearray(SMALL)
    for at, value in flips:
        content[at] = value
    fuzz(tmp_path, bytes(content), walk=walk)


@bounded
@given(st.booleans(), st.integers(0, len(SMALL)), st.integers(0, 30), st.binary(max_size=30))
def test_replaced_stretches(tmp_path, walk, at, length, content):
    fuzz(tmp_path, SMALL[:at] + content + SMALL[at + length :], walk=walk)


_external = st.sampled_from(["w.bin", "../secret", "/etc/passwd", "up/secret", "link", ".", "", "fuzz.onnx", "a\0", "w.bin/", "//w.bin", "fifo", "é"])
_counts = st.sampled_from(["0", "8", "-1", "99999999999999999999", "9223372036854775807", "x", "", "1", "٣"])
_dims = st.lists(st.sampled_from([0, 1, 2, -1, 1 << 31, 1 << 62, (1 << 63) - 1]), max_size=3)


@bounded
@given(st.booleans(), _external, _counts, _counts, _dims, st.integers(-1, 40), st.sampled_from(["location", "offset", wire.INLINE_KEY]))
def test_external_data_of_any_kind(tmp_path, walk, location, offset, length, dims, kind, extra):
    folder = tmp_path / "model"
    if not folder.exists():
        folder.mkdir()
        (tmp_path / "secret").write_bytes(b"secret! " * 100)
        (folder / "w.bin").write_bytes(bytes(16))
        (folder / "up").symlink_to("..")
        (folder / "link").symlink_to("../secret")
        os.mkfifo(folder / "fifo")
    model = onnx.ModelProto.FromString(SMALL)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.data_type = kind
    tensor.dims[:] = dims
    for key, value in (("location", location), ("offset", offset), ("length", length), (extra, "0,8")):
        tensor.external_data.add(key=key, value=value)
    if fuzz(folder, model.SerializeToString(), walk=walk):
        assert b"secret" not in (folder / "fuzz.onnx.out").read_bytes()


@pytest.mark.parametrize("op", ["Add", "Custom", "If"])
@pytest.mark.parametrize("kind", ["graph", "graphs", "tensor", "external"])
@pytest.mark.parametrize("walk", [False, True])
def test_attributes_where_no_operator_has_them(tmp_path, op, kind, walk):
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, [2])])
    tensor = weight("k")
    if kind == "external":
        (tmp_path / "w.bin").write_bytes(bytes(36_000))
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    value = {"graph": body, "graphs": [body, body], "tensor": tensor, "external": tensor}[kind]
    model = helper.make_model(helper.make_graph([helper.make_node(op, [], ["y"], odd=value)], "g", [], [helper.make_tensor_value_info("y", 1, None)]))
    if op == "Add" and "graph" in kind:  # an operator that has none
        fuzz(tmp_path, model.SerializeToString(), walk=walk)
        return
    assert fuzz(tmp_path, model.SerializeToString(), walk=walk)
    wanted = onnx.load(tmp_path / "fuzz.onnx")
    found = onnx.load(tmp_path / "fuzz.onnx.out")
    if kind == "external":  # onnx.load spells the location out
        wanted.graph.node[0].attribute[0].t.ClearField("data_location")
        found.graph.node[0].attribute[0].t.ClearField("data_location")
    assert found == wanted


def test_unknown_fields_of_weights_are_kept(tmp_path):
    content = weight("u").SerializeToString() + wire.header(800, 3) + b"new"
    graph = wire.header(5, len(content)) + content
    model = helper.make_model(helper.make_graph([], "g", [], [])).SerializeToString() + wire.header(7, len(graph)) + graph
    for walk in (False, True):
        assert fuzz(tmp_path, model, walk=walk)
        assert onnx.load(tmp_path / "fuzz.onnx.out") == onnx.ModelProto.FromString(model)


@pytest.mark.parametrize("location", ["../secret", "up/secret", "link", "/etc/passwd"])
def test_bytes_outside_the_folder_are_never_read(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(8))
    (folder / "up").symlink_to("..")
    (folder / "link").symlink_to("../secret")
    model = onnx.ModelProto.FromString(SMALL)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError) as caught:
        load(folder / "m.onnx")
    assert "tensor 'w'" in caught.value.where
    assert caught.value.fix


def test_what_is_no_path_and_no_stream(model, tmp_path):
    for wrong in (model, b"m.onnx", 3):
        with pytest.raises(GraphTypeError, match="a path or a binary stream"):
            load(wrong)
        with pytest.raises(GraphTypeError, match="a path or a binary stream"):
            save(_loaded(model, tmp_path), wrong)


def test_long_names_and_links(model, tmp_path):
    graph = _loaded(model, tmp_path)
    name = "模" * 80 + ".onnx"
    save(graph, tmp_path / name)
    (tmp_path / "link.onnx").symlink_to(name)
    save(graph, tmp_path / "link.onnx", external_data=Path("w.data"))
    assert not (tmp_path / "link.onnx").is_symlink()
    assert onnx.load(tmp_path / name) == model


def test_a_model_without_opsets_is_refused(tmp_path):
    model = small_model()
    del model.opset_import[:]
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelFileError, match="names no operator set"):
        load(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", ["missing.onnx", "", "a\0b", "x" * 300])
def test_paths_that_lead_nowhere(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError):
        load(name)


def test_a_weight_that_cannot_be_read_leaves_nothing_behind(tmp_path, model):
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    graph = load(tmp_path / "m.onnx")
    os.truncate(tmp_path / "w.data", 10)
    before = files(tmp_path)
    with pytest.raises(ModelFileError, match=r"but bytes .* are needed"):
        save(graph, tmp_path / "n.onnx")
    assert files(tmp_path) == before


skeleton = outlines._Skeleton
TEXT = """<ir_version: 10, opset_import: ["": 17, "local": 1]> graph_name (float[rows, 2] x_name) => (float[rows, 2] y_name) <float[1] described> {
  y_name = LeakyRelu <alpha = 0.5> (x_name)
}
<domain: "local", opset_import: ["": 17]> f_name <f_attr> (f_in) => (f_out) { f_out = LeakyRelu <alpha: float = @f_attr> (f_in) }"""


def named():
    stored = onnx.parser.parse_model(TEXT)
    stored.graph.node[0].name = "node_name"
    stored.graph.quantization_annotation.add(tensor_name="noted")
    return stored


@pytest.mark.parametrize("name", [b"x_name", b"y_name", b"node_name", b"LeakyRelu", b"graph_name", b"noted", b"described", b"f_name", b"f_in", b"f_attr"])
def test_names_that_are_no_text_are_told_with_their_place(tmp_path, name):
    content = named().SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content.replace(name, b"\xff" + name[1:]))
    with pytest.raises(ModelFileError, match=f"a name is not UTF-8 at byte {content.index(name)}"):
        load(path)
    with pytest.raises(GraphError, match="no UTF-8 text"):
        load(io.BytesIO(path.read_bytes()))


def test_names_that_are_no_text_and_decoded_late_are_told_when_they_are_asked_for(tmp_path):
    content = named().SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content.replace(b"alpha", b"\xfflpha"))
    graph = load(path)
    with pytest.raises(GraphError, match=r"no UTF-8 text: b'\\xfflpha'"):
        graph.nodes[0].attrs
    save(graph, tmp_path / "n.onnx")  # nobody changed it
    assert (tmp_path / "n.onnx").read_bytes() == path.read_bytes()
    path.write_bytes(content.replace(b"rows", b"\xffows"))
    graph = load(path)
    with pytest.raises(GraphError, match=r"the name of a dim is no UTF-8 text, in shape \[b'\\xffows', 2\]"):
        graph.inputs[0].shape


def test_links_and_relative_paths_lead_to_the_file(tmp_path, model, monkeypatch):
    (tmp_path / "real").mkdir()
    save(_loaded(model, tmp_path), tmp_path / "real" / "m.onnx", external_data="w.data")
    (tmp_path / "link.onnx").symlink_to("again.onnx")
    (tmp_path / "again.onnx").symlink_to(tmp_path / "source.onnx")
    (tmp_path / "folder").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    for path in (tmp_path / "link.onnx", tmp_path / "folder" / "m.onnx", "m.onnx", "../folder/../real/m.onnx", "../link.onnx"):
        graph = load(path)
        monkeypatch.chdir(tmp_path)
        assert graph.tensors()["v"].values.tobytes() == weight("v", seed=1).raw_data
        monkeypatch.chdir(tmp_path / "real")


def test_moved_data_files_are_read_where_they_are_now(tmp_path, model):
    graphs = []
    for i in range(70):  # more than are kept open
        (tmp_path / f"{i}").mkdir()
        save(_loaded(model, tmp_path), tmp_path / f"{i}" / "m.onnx", external_data="w.data")
        graphs.append(load(tmp_path / f"{i}" / "m.onnx"))
    (tmp_path / "0").rename(tmp_path / "moved")
    assert load(tmp_path / "moved" / "m.onnx").tensors()["v"].values.tobytes() == weight("v", seed=1).raw_data


def test_an_absolute_path_needs_no_working_directory(tmp_path, model, monkeypatch):
    _loaded(model, tmp_path)
    (tmp_path / "gone").mkdir()
    (tmp_path / "copy.onnx").write_bytes((tmp_path / "source.onnx").read_bytes())
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert load(tmp_path / "copy.onnx").tensors()["v"].values.tobytes() == weight("v", seed=1).raw_data


def test_a_file_that_is_written_over_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "PINNED_FILES", 1 << 20)  # whatever graphs of other tests still hold
    path = tmp_path / "m.onnx"
    large = model_of(weight("v", seed=1, size=300_000), weight("w", seed=2, size=300_000))
    onnx.save(large, path)
    graph = load(path)
    held = graph.tensors()["v"].values
    onnx.save(model_of(weight("v", seed=3, size=300_000), weight("w", seed=4, size=300_000)), path)
    os.utime(path, ns=(1, 1))  # a coarse clock may not tell the two apart
    with pytest.raises(ModelFileError, match="changed or replaced since the model was loaded"):
        graph.tensors()["w"].values
    with pytest.raises(ModelFileError, match="changed or replaced since the model was loaded"):
        save(graph, tmp_path / "n.onnx")
    assert files(tmp_path) == ["m.onnx"]
    path.write_bytes(b"")
    assert held.tobytes() == weight("v", seed=1, size=300_000).raw_data


def test_what_was_folded_does_not_change_with_the_file(tmp_path):
    path = tmp_path / "m.onnx"
    text = """<ir_version: 10, opset_import: ["": 17]> g (float[n, 600] x) => (float[n, 600] y) <float[600, 600] w> {
        t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t) }"""
    stored = onnx.parser.parse_model(text)
    stored.graph.initializer.append(weight("w", 360_000, seed=1))
    stored.graph.initializer[0].dims[:] = [600, 600]
    onnx.save(stored, path)
    graph = gs.load(path).simplify()
    assert [node.op for node in graph.nodes] == ["MatMul"]
    onnx.save(named(), path)
    wanted = numpy_helper.to_array(stored.graph.initializer[0]).T
    assert np.array_equal(graph.nodes[0].inputs[1].values, wanted)
    gs.save(graph, tmp_path / "n.onnx")
    assert np.array_equal(gs.load(tmp_path / "n.onnx").nodes[0].inputs[1].values, wanted)


def test_files_of_many_held_models_are_read_whole(tmp_path, monkeypatch):
    gc.collect()
    before = sum(file() is not None and file()._pinned for file in list(regions._live.values()))
    monkeypatch.setattr(regions, "PINNED_FILES", before + 3)
    large = model_of(weight("v", seed=1, size=300_000))
    graphs = []
    for i in range(6):
        onnx.save(large, tmp_path / f"{i}.onnx")
        graphs.append(load(tmp_path / f"{i}.onnx"))
    kinds = [type(g.tensors()["v"]._values.region.file).__name__ for g in graphs]
    assert sorted(set(kinds)) == ["MemoryFile", "SourceFile"]
    assert kinds.count("SourceFile") <= 3
    assert all(g.tensors()["v"].values.tobytes() == weight("v", seed=1, size=300_000).raw_data for g in graphs)


def test_files_of_many_small_fields_are_walked_once(tmp_path, monkeypatch):
    walks = []
    monkeypatch.setattr(outlines, "_Skeleton", lambda *args: walks.append(args) or skeleton(*args))
    many = helper.make_model(helper.make_graph([helper.make_node("Neg", [f"a{i}"], [f"a{i + 1}"], name="n" * 30) for i in range(20_000)], "g", [], []))
    onnx.save(many, tmp_path / "m.onnx")
    assert load(tmp_path / "m.onnx").nodes[-1].outputs[0].name == "a20000"
    assert len(walks) == 1


def test_graphs_that_nobody_holds_leave_room_for_more_files(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    large = model_of(weight("v", seed=1, size=300_000))
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 30, before[1]))
    gc.disable()
    try:
        for i in range(40):
            onnx.save(large, tmp_path / f"{i}.onnx")
            load(tmp_path / f"{i}.onnx")
    finally:
        gc.enable()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
