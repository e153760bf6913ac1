import os

import numpy as np
import pytest
from onnx import TensorProto

from onnx_gs.errors import ModelFileError
from onnx_gs.io import external_data
from onnx_gs.io.external_data import Layout, locate, point, stored_bytes


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "w.data").write_bytes(np.arange(100, dtype=np.uint8).tobytes())
    (tmp_path / "secret").write_bytes(bytes(100))
    return inside


def external(*, dims=(10,), data_type=TensorProto.UINT8, **entries):
    tensor = TensorProto(name="w", dims=dims, data_type=data_type, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.data", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.mark.parametrize(
    ("entries", "offset"),
    [({"offset": "5", "length": "10"}, 5), ({"offset": "5"}, 5), ({}, 0), ({"offset": "", "length": ""}, 0), ({"checksum": "abc", "later": "x"}, 0)],
)
def test_offset_and_length(folder, entries, offset):
    region = locate(external(**entries), str(folder))
    assert region.read() == bytes(range(offset, offset + 10))


def test_tensors_of_one_file_share_it(folder):
    first, second = locate(external(), str(folder)), locate(external(offset="50"), str(folder))
    assert first.file is second.file


def test_a_replaced_data_file_is_another(folder):
    first = locate(external(), str(folder))
    first.file.pin()
    (folder / "new").write_bytes(b"x" * 200)
    os.replace(folder / "new", folder / "w.data")
    assert locate(external(), str(folder)).read() == b"x" * 10
    assert first.read() == bytes(range(10))


def test_links_within_the_folder_are_followed(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "link").symlink_to("../w.data")
    assert locate(external(location="sub/link"), str(folder)).read() == bytes(range(10))
    assert locate(external(location="./w.data"), str(folder)).read() == bytes(range(10))


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "alias").symlink_to(folder)
    assert locate(external(), str(tmp_path / "alias")).read() == bytes(range(10))


def test_the_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert locate(external(), "").read() == bytes(range(10))


@pytest.mark.parametrize(
    ("location", "what"),
    [
        ("/etc/passwd", "path is absolute"),
        ("\\\\host\\share", "path is absolute"),
        ("../secret", r"by '\.\.'"),
        ("sub/../../secret", r"by '\.\.'"),
        ("..\\secret", r"by '\.\.'"),
        ("out", "a symbolic link leads out"),
        ("up/secret", "a symbolic link leads out"),
        ("device", "a symbolic link leads out"),
        ("fifo", "is no regular file"),
        (".", "is no regular file"),
        ("missing", "cannot be opened: No such file"),
        ("loop", "cannot be opened|leads out"),
        ("w.data/x", "cannot be opened: Not a directory"),
        ("a\0b", "zero byte"),
        ("x" * 5000, "cannot be opened: File name too long"),
        ("", "without a location"),
    ],
)
def test_paths_that_are_not_allowed(folder, location, what):
    (folder / "out").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    (folder / "device").symlink_to("/dev/zero")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    with pytest.raises(ModelFileError, match=what) as caught:
        locate(external(location=location), str(folder))
    assert caught.value.where.startswith("tensor 'w'")


def test_a_link_that_is_turned_outward_later_is_refused(folder):
    (folder / "inner").write_bytes(bytes(100))
    link = folder / "link"
    link.symlink_to("inner")
    kept = locate(external(location="link"), str(folder))
    link.unlink()
    link.symlink_to("../secret")
    with pytest.raises(ModelFileError, match="leads out"):
        locate(external(location="link"), str(folder))
    assert kept.read() == bytes(10)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"offset": "91"}, "has 100 bytes, but bytes 91 to 101 are needed"),
        ({"offset": str(2**62)}, "has 100 bytes, but"),
        ({"offset": "-1"}, "offset '-1', which is no count"),
        ({"offset": "1e3"}, "no count of bytes"),
        ({"offset": "9" * 5000}, "no count of bytes"),
        ({"offset": "²"}, "no count of bytes"),
        ({"length": "9"}, "has 9 bytes, but type and dims ask for 10"),
        ({"length": "100"}, "has 100 bytes, but type and dims ask for 10"),
        ({"dims": (1000,)}, "has 100 bytes, but bytes 0 to 1000 are needed"),
        ({"dims": (-1,)}, r"dims \[-1\] are negative"),
        ({"dims": (2**40, 2**40)}, "more than any file holds"),
        ({"data_type": TensorProto.STRING}, "strings cannot be external"),
        ({"data_type": 77}, "element type 77 is unknown"),
        ({"data_type": 0}, "element type 0 is unknown"),
    ],
)
def test_numbers_that_are_wrong(folder, entries, what):
    with pytest.raises(ModelFileError, match=what) as caught:
        locate(external(**entries), str(folder))
    assert "tensor 'w'" in caught.value.where


def test_a_model_without_a_folder(folder):
    with pytest.raises(ModelFileError, match="no folder"):
        locate(external(), None)


def test_packed_types_take_whole_bytes():
    assert stored_bytes(TensorProto(data_type=TensorProto.INT4, dims=[3])) == 2
    assert stored_bytes(TensorProto(data_type=TensorProto.FLOAT, dims=[])) == 4
    assert stored_bytes(TensorProto(data_type=TensorProto.FLOAT, dims=[0, 2**40, 2**40])) == 0


def test_layout_aligns_and_shares():
    layout = Layout(10)
    assert layout.place(100, "a") == (64, True)
    assert layout.place(100_000, "b") == (4096, True)
    assert layout.place(100, "a") == (64, False)
    assert layout.place(1, "c") == (104_128, True)
    assert layout.end == 104_129


def test_point_replaces_what_was_there():
    tensor = external(later="x")
    point(tensor, "new", 5, 10)
    assert [(e.key, e.value) for e in tensor.external_data] == [("location", "new"), ("offset", "5"), ("length", "10")]
    external_data.embed(tensor)
    assert tensor == TensorProto(name="w", dims=(10,), data_type=TensorProto.UINT8)
