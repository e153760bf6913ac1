"""A model in every form that a file's name can ask for: nothing is lost on the way there and back, or it is refused."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.io import formats
from onnx_gs.io.text import parse
from onnx_gs.ir.isomorphism import difference

EXACT = [".onnx", ".pb", ".textproto", ".prototxt", ".pbtxt", ".txtpb", ".json", ".onnxjson", ".JSON"]
TEXT = [".onnxtxt", ".onnxtext", ".txt"]


def model() -> gs.Graph:
    values = np.float32([0.1, 1 / 3, np.pi, 1e-40, np.inf, -0.0, 3e38])
    x, h, y = (gs.Variable(name, np.float32, ("n", 7)) for name in "xhy")
    weight = gs.Constant("w", values)
    nodes = [gs.Node("LeakyRelu", "leak", {"alpha": 0.1}, [x], [h]), gs.Node("Add", "sum", inputs=[h, weight], outputs=[y])]
    return gs.import_onnx(gs.export_onnx(gs.Graph(nodes, [x], [y], name="g", opset=18, ir_version=9)))  # attributes in float32


def readable_numbers() -> list[str]:
    """List those numbers that the installed onnx reads in text; older ones stop at the smallest normal one."""
    found = []
    for text in ("0.1", "1e-40"):
        with contextlib.suppress(gs.GraphError):
            parse(f"g (float[1] x) => (float[1] y) <float[1] w = {{{text}}}> {{ y = Add (x, w) }}")
            found.append(text)
    return found


def load(path):
    return formats.load(str(path), graph_type=gs.Graph, function_type=gs.Function)


@pytest.mark.parametrize("extension", EXACT + TEXT)
def test_there_and_back(extension, tmp_path):
    path = tmp_path / f"model{extension}"
    if extension in TEXT and "1e-40" not in readable_numbers():
        with pytest.raises(gs.ModelFileError, match="cannot hold this model"):
            formats.save(model(), str(path))
        return
    formats.save(model(), str(path))
    back = load(path)
    assert difference(model(), back) is None
    stored = next(t for n in back.nodes for t in n.inputs if isinstance(t, gs.Constant)).values
    assert np.array_equal(stored.view(np.int32), model().nodes[1].inputs[1].values.view(np.int32))
    if extension in EXACT:
        assert [n.name for n in back.nodes] == ["leak", "sum"]


@pytest.mark.parametrize("extension", [".textproto", ".json", ".onnx"])
def test_as_onnx_reads_them(extension, tmp_path):
    path = tmp_path / f"model{extension}"
    formats.save(model(), str(path))
    assert difference(gs.import_onnx(onnx.load_model(path)), model()) is None
    onnx.save_model(gs.export_onnx(model()), path)
    assert difference(load(path), model()) is None


def test_text_that_would_lose_something_is_not_written(tmp_path, monkeypatch):
    other = """<ir_version: 9, opset_import: ["" : 18]> g (float[n, 7] x) => (float[n, 7] y) { y = Neg (x) }"""
    monkeypatch.setattr(formats.text, "printed", lambda _: other)
    with pytest.raises(gs.ModelFileError, match="cannot hold this model") as caught:
        formats.save(model(), str(tmp_path / "m.onnxtxt"))
    assert ".json" in caught.value.fix
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.engine", "model.xml", "model.onnx.gz"])
def test_another_extension_is_refused_with_the_list(name, tmp_path):
    with pytest.raises(gs.ModelFileError, match="is not written as") as caught:
        formats.save(model(), str(tmp_path / name))
    assert all(extension in caught.value.fix for extension in formats.FORMATS)
    assert not list(tmp_path.iterdir())


def test_no_extension_is_onnx(tmp_path):
    formats.save(model(), str(tmp_path / "model"))
    assert difference(load(tmp_path / "model"), model()) is None


@pytest.mark.parametrize("extension", [".json", ".textproto", ".txt"])
def test_text_has_no_external_data(extension, tmp_path):
    with pytest.raises(gs.ModelFileError, match="no external data"):
        formats.save(model(), str(tmp_path / f"m{extension}"), external_data="w.bin")


@pytest.mark.parametrize("content", [b"hello world\n", b"\xff\xfe\x00", b"{}x"])
@pytest.mark.parametrize("extension", [".json", ".textproto", ".txt"])
def test_what_is_no_model_says_how_it_was_read(extension, content, tmp_path):
    path = tmp_path / f"m{extension}"
    path.write_bytes(content)
    with pytest.raises(gs.ModelFileError) as caught:
        load(path)
    assert formats.of(str(path)) in str(caught.value)
    assert str(path) in caught.value.where
    assert "\n" not in caught.value.what


def test_a_text_error_names_line_and_column(tmp_path):
    (tmp_path / "m.txt").write_text("hello world\n")
    with pytest.raises(gs.ModelFileError, match=r"line \d+, column \d+: .*near 'hello world'"):
        load(tmp_path / "m.txt")
    with pytest.raises(gs.ModelFileError, match="no such file"):
        load(tmp_path / "none.txt")
