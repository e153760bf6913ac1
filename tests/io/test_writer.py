import io
import os
import stat

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_gs.errors import ModelFileError
from onnx_gs.io import outline as outlines, regions, wire, writer
from onnx_gs.io.external_data import initializers, locate
from onnx_gs.io.outline import inline_region, outline
from onnx_gs.io.regions import Region, SourceFile
from onnx_gs.io.writer import Payload, write_model, write_stream


def tensor(name, size, **fields):
    return TensorProto(name=name, data_type=TensorProto.UINT8, dims=[size], **fields)


def content(size, seed=0):
    return np.random.default_rng(seed).bytes(size)


def model_of(*tensors, attribute=None):
    nodes = [helper.make_node("Constant", [], ["c"], value=attribute)] if attribute is not None else []
    return helper.make_model(helper.make_graph(nodes, "g", [], [], list(tensors)), opset_imports=[helper.make_opsetid("", 17)])


def payloads_of(model, sources):
    by_name = {t.name: t for t in initializers(model)}
    return [Payload(by_name[name], s, s.length if isinstance(s, Region) else memoryview(s).nbytes) for name, s in sources.items()]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source.bin").write_bytes(content(200_000))
    return SourceFile.of(tmp_path / "source.bin")


def files(folder):
    return sorted(p.name for p in folder.iterdir())


def test_one_file_is_what_protobuf_would_write(tmp_path, source):
    model = model_of(tensor("a", 5000), tensor("b", 3), tensor("c", 0), tensor("d", 7, raw_data=b"1234567"))
    sources = {"a": Region(source, 10, 5000), "b": np.uint8([1, 2, 3]), "c": b""}
    write_model(model, tmp_path / "m.onnx", payloads_of(model, sources))
    wanted = model_of(
        tensor("a", 5000, raw_data=content(200_000)[10:5010]),
        tensor("b", 3, raw_data=b"\1\2\3"),
        tensor("c", 0, raw_data=b""),
        tensor("d", 7, raw_data=b"1234567"),
    )
    assert (tmp_path / "m.onnx").read_bytes() == wanted.SerializeToString()
    stream = io.BytesIO()
    write_stream(model, stream, payloads_of(model, sources))
    assert stream.getvalue() == wanted.SerializeToString()


def test_arrays_of_any_layout(tmp_path):
    model = model_of(tensor("a", 12), tensor("b", 8))
    first, second = np.arange(24, dtype=np.uint8)[::2], np.arange(4).astype(ml_dtypes.bfloat16)
    payloads = [Payload(t, s, s.nbytes) for t, s in zip(model.graph.initializer, (first, second))]
    write_model(model, tmp_path / "m.onnx", payloads)
    found = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [t.raw_data for t in found] == [first.tobytes(), second.tobytes()]


def test_external_file_is_aligned_ordered_and_shared(tmp_path, source):
    model = model_of(
        tensor("a", 70_000), tensor("b", 2000), tensor("same", 70_000), tensor("small", 1024), tensor("own", 1500, raw_data=content(1500, 3))
    )
    shared = Region(source, 0, 70_000)
    sources = {"a": shared, "b": content(2000, 1), "same": Region(source, 0, 70_000), "small": content(1024, 2)}
    write_model(model, tmp_path / "m.onnx", payloads_of(model, sources), external="w.data")
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    places = [{e.key: e.value for e in t.external_data} for t in stored]
    assert [p.get("offset") for p in places] == ["0", "70016", "0", None, "72064"]
    assert {p.get("location") for p in places} == {"w.data", None}
    loaded = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [t.raw_data for t in loaded] == [shared.read(), content(2000, 1), shared.read(), content(1024, 2), content(1500, 3)]
    assert (tmp_path / "w.data").stat().st_size == 73_564


def test_large_weights_begin_on_a_page(tmp_path, source):
    model = model_of(tensor("b", 2000), tensor("a", 70_000))
    write_model(model, tmp_path / "m.onnx", payloads_of(model, {"b": content(2000, 1), "a": Region(source, 1, 70_000)}), external="w.data")
    places = [int(e.value) for t in outline(tmp_path / "m.onnx").model.graph.initializer for e in t.external_data if e.key == "offset"]
    assert places == [0, 4096]


def test_external_without_large_weights_makes_no_file(tmp_path):
    model = model_of(tensor("b", 3))
    write_model(model, tmp_path / "m.onnx", payloads_of(model, {"b": b"123"}), external="w.data")
    assert files(tmp_path) == ["m.onnx"]


def test_weights_of_bodies_move_and_small_attributes_stay(tmp_path, source):
    body = helper.make_graph([], "b", [], [], [tensor("inner", 3000, raw_data=content(3000, 5))])
    model = model_of(tensor("a", 3000, raw_data=content(3000, 6)), attribute=tensor("attr", 3000))
    model.graph.node.append(helper.make_node("If", ["c"], [], then_branch=body, else_branch=body))
    attribute = model.graph.node[0].attribute[0].t
    write_model(model, tmp_path / "m.onnx", [Payload(attribute, content(3000, 7), 3000)], external="w.data")
    found = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert [e.value for t in initializers(found) for e in t.external_data if e.key == "offset"] == ["0", "3008", "6016"]
    assert found.graph.node[0].attribute[0].t.raw_data == content(3000, 7)
    assert [t.raw_data for t in initializers(onnx.load(tmp_path / "m.onnx"))] == [content(3000, 6), content(3000, 5), content(3000, 5)]


def test_size_threshold(tmp_path):
    model = model_of(tensor("a", 10), tensor("b", 11))
    write_model(model, tmp_path / "m.onnx", payloads_of(model, {"a": bytes(10), "b": bytes(11)}), external="w.data", size_threshold=10)
    assert [t.data_location for t in outline(tmp_path / "m.onnx").model.graph.initializer] == [0, 1]


def test_over_the_limit_of_a_message_goes_beside(tmp_path, monkeypatch, caplog):
    plain = model_of(tensor("a", 5000, raw_data=bytes(5000))).ByteSize()
    for limit, wanted in ((plain, ["m.onnx"]), (plain - 1, ["m.onnx", "m.onnx.data"]), (4999, ["m.onnx", "m.onnx.data"])):
        monkeypatch.setattr(wire, "MESSAGE_LIMIT", limit)
        model = model_of(tensor("a", 5000))
        with caplog.at_level("INFO", "onnx_gs"):
            write_model(model, tmp_path / "m.onnx", payloads_of(model, {"a": content(5000)}))
        assert files(tmp_path) == wanted
        assert onnx.load(tmp_path / "m.onnx").graph.initializer[0].raw_data == content(5000)
    assert "weights go to 'm.onnx.data'" in caplog.text


def test_a_structure_over_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "MESSAGE_LIMIT", 100)
    model = model_of(TensorProto(name="a", data_type=1, dims=[100], float_data=[0.0] * 100))
    with pytest.raises(ModelFileError, match="even with its weights beside it"):
        write_model(model, tmp_path / "m.onnx")
    with pytest.raises(ModelFileError, match="more than the 2 GB"):
        write_stream(model, io.BytesIO())
    assert files(tmp_path) == []


def test_the_limit_is_exact(tmp_path):
    with open(tmp_path / "big.bin", "wb") as file:
        file.truncate(2**31)
    file = SourceFile.of(tmp_path / "big.bin")
    model = model_of(tensor("a", 2**31 - 100), tensor("b", 1))

    def size(nbytes):
        pieces = writer._embedded(model, [Payload(model.graph.initializer[0], Region(file, 0, nbytes), nbytes)])
        return pieces and sum(p.length if isinstance(p, wire.Hole) else len(p) for p in pieces)

    around = size(2**31 - 100) - (2**31 - 100)
    assert size(2**31 - 1 - around) == 2**31 - 1
    assert size(2**31 - around) is None


# -- replacing ------------------------------------------------------------------------------------


@pytest.fixture
def walked(monkeypatch):
    monkeypatch.setattr(outlines, "SMALL_FILE", 0)


def reopened(path):
    """Load as import does: every weight that stayed in a file as a payload."""
    model, file, _ = outline(path)
    payloads = []
    for t in initializers(model):
        inline = inline_region(t) if file else None
        if inline:
            payloads.append(Payload(t, Region(file, *inline), inline[1]))
        elif t.data_location == TensorProto.EXTERNAL:
            region = locate(t, os.path.dirname(path))
            payloads.append(Payload(t, region, region.length))
    return model, payloads


def test_save_over_the_open_file(tmp_path, walked):
    path = str(tmp_path / "m.onnx")
    onnx.save(model_of(tensor("a", 5000, raw_data=content(5000)), tensor("b", 6000, raw_data=content(6000, 1))), path)
    model, payloads = reopened(path)
    for _ in range(3):
        write_model(model, path, payloads)
        assert [t.raw_data for t in onnx.load(path).graph.initializer] == [content(5000), content(6000, 1)]
    model.graph.initializer[0].name = "longer name"
    write_model(model, path, payloads[::-1])
    assert onnx.load(path).graph.initializer[0].name == "longer name"
    assert files(tmp_path) == ["m.onnx"]


def test_save_over_the_external_file_that_is_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "OPEN_FILES", 0)
    path = str(tmp_path / "m.onnx")
    model = model_of(tensor("a", 5000), tensor("b", 6000))
    write_model(model, path, payloads_of(model, {"a": content(5000), "b": content(6000, 1)}), external="w.data")
    model, payloads = reopened(path)
    view = payloads[0].source.view()
    for _ in range(2):
        write_model(model, path, payloads[::-1], external="w.data")
        assert [t.raw_data for t in onnx.load(path).graph.initializer] == [content(5000), content(6000, 1)]
    model.graph.initializer.reverse()
    write_model(model, path, payloads, external="w.data")
    assert {t.name: t.raw_data for t in onnx.load(path).graph.initializer} == {"a": content(5000), "b": content(6000, 1)}
    assert view.tobytes() == content(5000)
    write_model(model, path, payloads)
    assert onnx.load(path, load_external_data=False).graph.initializer[1].raw_data == content(5000)


def test_normal_save_drops_stale_bytes(tmp_path):
    path = str(tmp_path / "m.onnx")
    model = model_of(tensor("a", 50_000), tensor("b", 60_000))
    write_model(model, path, payloads_of(model, {"a": content(50_000), "b": content(60_000, 1)}), external="w.data")
    model, payloads = reopened(path)
    del model.graph.initializer[0]
    write_model(model, path, payloads[1:], external="w.data")
    assert os.path.getsize(tmp_path / "w.data") == 60_000


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt(), ModelFileError("weight cannot be read")])
@pytest.mark.parametrize("external", [None, "w.data", "keep"])
def test_a_fault_leaves_everything_as_it_was(tmp_path, monkeypatch, fault, external):
    path = str(tmp_path / "m.onnx")
    model = model_of(tensor("a", 50_000), tensor("b", 60_000))
    write_model(model, path, payloads_of(model, {"a": content(50_000), "b": content(60_000, 1)}), external="w.data")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    model, payloads = reopened(path)
    payloads[1].source = content(60_000, 2)

    calls = 0
    write_all = writer.write_all

    def failing(target, data):
        nonlocal calls
        calls += 1
        write_all(target, data[: len(data) // 2])
        raise fault

    monkeypatch.setattr(writer, "write_all", failing)
    with pytest.raises(KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else ModelFileError):
        write_model(model, path, payloads, external=external)
    assert calls
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_error(tmp_path, monkeypatch):
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: real("/dev/full" if str(path).endswith(".part") else path, flags & ~os.O_EXCL, *mode))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    model = model_of(tensor("a", 50))
    with pytest.raises(ModelFileError, match="cannot be written: No space left on device"):
        write_model(model, tmp_path / "m.onnx", payloads_of(model, {"a": bytes(50)}))


def test_new_files_have_the_usual_mode_and_replaced_ones_keep_theirs(tmp_path):
    path = tmp_path / "m.onnx"
    old = os.umask(0o027)
    try:
        write_model(model_of(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        write_model(model_of(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(old)


def test_a_bare_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = model_of(tensor("a", 5000))
    write_model(model, "m.onnx", payloads_of(model, {"a": content(5000)}), external="w.data")
    assert files(tmp_path) == ["m.onnx", "w.data"]


@pytest.mark.parametrize(
    ("target", "external", "what"),
    [
        ("missing/m.onnx", None, "its folder does not exist"),
        (".", None, "there is a folder or device"),
        ("/dev/null", None, "there is a folder or device"),
        ("m.onnx", "../w", "does not lie in the model's folder"),
        ("m.onnx", "/tmp/w", "does not lie in the model's folder"),
        ("m.onnx", "", "does not lie in the model's folder"),
        ("m.onnx", "m.onnx", "would overwrite the model"),
        ("m.onnx", "sub/w", "its folder does not exist"),
        ("m.onnx", "up/w", "by a link"),
        ("m.onnx", "up", "there is a folder"),
    ],
)
def test_targets_that_cannot_be(tmp_path, target, external, what):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "up").symlink_to("..")
    model = model_of(tensor("a", 5000))
    with pytest.raises(ModelFileError, match=what):
        write_model(model, os.path.join(folder, target), payloads_of(model, {"a": content(5000)}), external=external)
    assert files(folder) == ["up"]
    assert files(tmp_path) == ["folder"]


# -- keeping --------------------------------------------------------------------------------------


@pytest.fixture
def terabyte(tmp_path):
    """A model of 1 TB of external data, all holes."""
    model = model_of(*(tensor(f"w{i}", 1 << 36) for i in range(16)), tensor("last", 3))
    with open(tmp_path / "w.data", "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 40)
        file.write(b"end")
    for i, t in enumerate(model.graph.initializer):
        t.data_location = TensorProto.EXTERNAL
        t.external_data.add(key="location", value="w.data")
        t.external_data.add(key="offset", value=str(i << 36))
        t.external_data.add(key="unknown", value="kept")
    onnx.save(model, str(tmp_path / "m.onnx"))
    return str(tmp_path / "m.onnx")


def test_keep_writes_the_structure_alone(terabyte, tmp_path):
    before = os.stat(tmp_path / "w.data")
    model, payloads = reopened(terabyte)
    assert payloads[16].source.view().tobytes() == b"end"
    original = onnx.load(terabyte, load_external_data=False)
    write_model(model, terabyte, payloads, external="keep")
    assert onnx.load(terabyte, load_external_data=False) == original
    after = os.stat(tmp_path / "w.data")
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns)


def test_keep_appends_what_changed(terabyte, tmp_path):
    model, payloads = reopened(terabyte)
    payloads[3].source, payloads[3].nbytes = content(5000), 5000
    del model.graph.initializer[3].dims[:]
    model.graph.initializer[3].dims.append(5000)
    for name in (terabyte, str(tmp_path / "variant.onnx")):
        write_model(model, name, payloads, external="keep")
        again, found = reopened(name)
        assert [t.name for t in again.graph.initializer] == [f"w{i}" for i in range(16)] + ["last"]
        assert found[3].source.read() == content(5000)
        assert found[16].source.read() == b"end"
        assert found[3].source.offset > 1 << 40
        assert found[3].source.offset % 64 == 0
    assert payloads[16].source.read() == b"end"


def test_keep_leaves_data_elsewhere_and_writes_a_file_of_its_own(tmp_path, source):
    (tmp_path / "other").mkdir()
    model = model_of(tensor("a", 5000))
    write_model(model, tmp_path / "other" / "m.onnx", payloads_of(model, {"a": Region(source, 0, 5000)}), external="keep")
    assert files(tmp_path / "other") == ["m.onnx", "m.onnx.data"]


def test_keep_in_a_folder_above(tmp_path):
    (tmp_path / "sub").mkdir()
    model = model_of(tensor("a", 5000))
    write_model(model, tmp_path / "sub" / "m.onnx", payloads_of(model, {"a": content(5000)}), external="w.data")
    model, payloads = reopened(str(tmp_path / "sub" / "m.onnx"))
    write_model(model, tmp_path / "m.onnx", payloads, external="keep")
    assert files(tmp_path) == ["m.onnx", "sub"]
    assert onnx.load(tmp_path / "m.onnx").graph.initializer[0].raw_data == content(5000)


def test_keep_does_not_take_the_model_itself_for_its_data(tmp_path, walked):
    path = str(tmp_path / "m.onnx")
    onnx.save(model_of(tensor("a", 5000, raw_data=content(5000))), path)
    model, payloads = reopened(path)
    write_model(model, path, payloads, external="keep")
    assert files(tmp_path) == ["m.onnx", "m.onnx.data"]
    assert onnx.load(path).graph.initializer[0].raw_data == content(5000)
