from __future__ import annotations

import stat

import pytest

from onnx_gs.errors import ModelFileError, TensorRTError
from onnx_gs.trt import cuda
from onnx_gs.trt.engine import Engine, refit, replacing


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_engine_is_saved_whole(tmp_path):
    path = Engine(content=b"abc").save(tmp_path / "e")
    loaded = Engine.load(path)
    assert bytes(loaded) == b"abc"
    assert loaded.size == 3
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_no_such_engine(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        Engine.load(tmp_path / "e")
    path = Engine(content=b"abc").save(tmp_path / "e")
    engine = Engine.load(path)
    path.unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        bytes(engine)


def test_an_error_while_writing_leaves_what_was_there(tmp_path):
    target = tmp_path / "e"
    target.write_bytes(b"old")

    def write():
        with replacing(target) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["e"]


def test_without_a_gpu_there_is_one_clear_error():
    pytest.importorskip("tensorrt_rtx")
    if cuda.device_count():
        pytest.skip("there is a GPU")
    for call in (Engine(content=b"x").stats, lambda: refit(Engine(content=b"x"), b"")):
        with pytest.raises(TensorRTError) as raised:
            call()
        assert "no engine can run here" in raised.value.what or "CUDA driver" in raised.value.what
        assert "GPU" in raised.value.fix
