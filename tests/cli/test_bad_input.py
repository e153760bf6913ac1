"""Bad files, places and values: one error that says what, where and how to fix it, the documented status, and nothing lost or left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.cli.main import COMMANDS, main
from onnx_gs.io.mistaken import SIGNATURES, identified

DEMO = Path(__file__).parent.parent.parent / "examples" / "models" / "keyword_spotter.onnx"

#: What each command needs besides a model.
MORE = {
    "inspect": [], "prepare": ["-o", "out.onnx"], "fold": ["-o", "out.onnx"], "lower": ["-o", "out.onnx"], "cleanup": ["-o", "out.onnx"],
    "check": ["--static"], "build": ["-o", "out.engine"], "describe": [], "run": [], "compare": ["good.onnx"],
    "extract": ["-o", "out.onnx", "--op", "Conv"], "bisect": ["--check", "false"], "diff": ["good.onnx"],
    "bind": ["-o", "out.onnx", "--bind", "batch=2"], "convert": ["-o", "out.onnx"], "view": ["-o", "out.html"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(DEMO, "good.onnx")
    return tmp_path


def refused(capsys, *arguments: str, status: int = 2) -> str:
    """Run a command that is refused; give its one error."""
    before = sorted(Path().iterdir())
    content = Path("good.onnx").read_bytes()
    assert main(list(arguments)) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("error:") == 1
    assert "Traceback" not in said.err
    assert "fix:" in said.err or "(see onnx-gs" in said.err
    assert sorted(Path().iterdir()) == before
    assert Path("good.onnx").read_bytes() == content
    return said.err


def bad(name: str) -> str:
    """Make a file that is no model, or give a path where none is."""
    content = {
        "empty.onnx": b"", "text.onnx": b"hello world\n" * 9, "cut.onnx": DEMO.read_bytes()[:4000], "zeros.onnx": bytes(3000),
        "zip.onnx": b"PK\x03\x04" + bytes(200), "lfs.onnx": b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1\n",
        "bad.json": b"{", "bad.onnxtxt": b"hello", "bad.textproto": b"graph {", "broken.txt": b"\xff\xfe\xff",
    }.get(name)  # fmt: skip
    if content is not None:
        Path(name).write_bytes(content)
    elif name == "folder.onnx":
        Path(name).mkdir()
    elif name == "data.onnx":
        gs.save(gs.load("good.onnx"), name, external_data="gone.data", size_threshold=10)
        Path("gone.data").unlink()
    return name


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize("name", ["missing.onnx", "empty.onnx", "text.onnx", "cut.onnx", "folder.onnx", "no/where.onnx", "data.onnx", "bad.json"])
def test_a_model_that_cannot_be_read(command, name, capsys):
    if (command, name) == ("inspect", "data.onnx"):
        pytest.skip("inspect warns of it and shows the rest")
    said = refused(capsys, command, bad(name), *MORE[command])
    assert said.startswith(f"onnx-gs {command}: error: ")
    assert "gone.data" in said if name == "data.onnx" else name in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("text.onnx", "text ("), ("zip.onnx", "PyTorch"), ("lfs.onnx", "git lfs pull"), ("zeros.onnx", "damaged"), ("bad.onnxtxt", "read as ONNX text"),
        ("bad.textproto", "read as protobuf text"), ("broken.txt", "it is no UTF-8 text"), ("goood.onnx", "did you mean 'good.onnx'?"),
        ("good.onnx/x.onnx", "'good.onnx' is a file, not a folder"), ("n" * 300 + ".onnx", "too long"), ("", "give the path of a model"),
        (".", "give the path of a model in it"), (os.devnull, "device"), ("\udcff.onnx", "No such file or directory"),
    ],
)  # fmt: skip
def test_what_a_file_is_instead_is_said(name, said, capsys):
    assert said in refused(capsys, "inspect", bad(name))


def test_signatures_are_told_apart():
    for offset, signature, kind, fix in SIGNATURES:
        assert identified(bytes(offset) + signature + bytes(20)) == (kind, fix)
    assert identified(DEMO.read_bytes()[:512]) is None
    assert identified("größe\n".encode()) is not None
    assert identified(b"<!DOCTYPE html><html>")[0] == "a web page"


WRITERS = ["prepare", "fold", "lower", "cleanup", "extract", "bind", "convert", "view", "build", "run", "bisect"]


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("place", ["none/out{}", "folder{}", "good.onnx/out{}", "pipe{}", "", ".", "{}".rjust(300, "n")])
def test_a_result_that_cannot_be_written(command, place, capsys):
    extension = {"view": ".html", "build": ".engine", "run": ".npz"}.get(command, ".onnx")
    place = place.format(extension)
    if place.startswith("folder"):
        Path(place).mkdir()
    if place.startswith("pipe"):
        os.mkfifo(place)
    more = [a for a in MORE[command] if not a.startswith("out.") and a != "-o"]
    refused(capsys, command, "good.onnx", *more, "-o", place)


@pytest.mark.parametrize("command", ["fold", "convert"])
def test_the_result_may_replace_what_was_read(command):
    before = gs.load("good.onnx")
    assert main([command, "good.onnx", "-o", "good.onnx", "--quiet"]) == 0
    after = gs.load("good.onnx")
    assert len(after.nodes) <= len(before.nodes)
    assert [t.name for t in after.inputs] == ["features"]


@pytest.mark.parametrize("name", ["good.onnx", "other.onnx", "../x.data", ""])
def test_a_data_file_never_replaces_a_model(name, capsys):
    shutil.copy(DEMO, "other.onnx")
    refused(capsys, "convert", "good.onnx", "-o", "new.onnx", "--external-data", name)
    assert Path("other.onnx").read_bytes() == DEMO.read_bytes()


def test_a_data_file_never_replaces_the_model_that_is_read_whatever_its_name(capsys):
    shutil.copy(DEMO, "model.pb")
    assert "would overwrite the model that is read" in refused(capsys, "convert", "model.pb", "-o", "new.onnx", "--external-data", "model.pb")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fold", "good.onnx", "-o", "o.onnx", "--only", ""], "--only names no pass"),
        (["bind", "good.onnx", "-o", "o.onnx", "--bind", "batch=99999999999999999999"], "is no size"),
        (["bind", "good.onnx", "-o", "o.onnx", "--bind", "batch=²"], "is no size"),
        (["compare", "good.onnx", "good.onnx", "--absolute", "nan"], "no number of at least 0"),
        (["diff", "good.onnx", "good.onnx", "--tolerance", "-1"], "no number of at least 0"),
        (["diff", "good.onnx", "good.onnx", "--html", "none/x.html"], "its folder does not exist"),
        (["bisect", "good.onnx", "--check", "false", "--timeout", "-1"], "no number of at least 0"),
        (["compare", "good.onnx", "good.onnx", "--layerwise", "--plot", "none/x.svg"], "its folder does not exist"),
        (["good.onnx"], "write `onnx-gs COMMAND good.onnx`"),
        (["inspect", "a\0b"], "null character"),
        (["inspect"], "required: MODEL"),
        (["inspect", "good.onnx", "--no-such"], "unrecognized arguments"),
    ],
)
def test_values_that_mean_nothing(arguments, said, capsys):
    assert said in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((2, 3), np.float32), "has shape [2, 3], but the input has ['batch', 40, 48]"),
        (np.zeros((2, 40, 47), np.float32), "has shape [2, 40, 47]"),
        (np.zeros((2, 40, 48), np.int64), "is int64, but the input is float32"),
        (np.array(["a"]), "but the input is float32"),
    ],
)
def test_feeds_that_no_input_takes(value, said, capsys):
    np.savez("feeds.npz", features=value)
    assert said in refused(capsys, "run", "good.onnx", "--inputs", "feeds.npz")
    assert said in refused(capsys, "fold", "good.onnx", "-o", "o.onnx", "--verify", "--feeds", "feeds.npz")


@pytest.mark.parametrize("command", [["run", "bad.onnx"], ["compare", "bad.onnx", "bad.onnx"]])
def test_a_model_that_onnx_runtime_refuses_is_not_blamed_on_its_inputs(command, capsys):
    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32, (2,))
    gs.save(gs.Graph([gs.Node("NoSuchOp", inputs=[x], outputs=[y])], [x], [y], opset=18), "bad.onnx")
    said = refused(capsys, *command)
    assert "NoSuchOp" in said
    assert "made up" not in said


def test_a_size_that_no_message_holds_is_an_error_in_python_too():
    graph = gs.load("good.onnx")
    graph.inputs[0].shape = (10**20, 40, 48)
    with pytest.raises(gs.GraphValueError, match="too large"):
        gs.export_onnx(graph)


def command_line(*arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "onnx_gs.cli.main", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_standard_input_and_output():
    done = command_line("convert", "-", "-o", "-", stdin=subprocess.PIPE)
    model, _ = done.communicate(DEMO.read_bytes(), timeout=60)
    assert done.returncode == 0
    assert len(gs.import_onnx(__import__("onnx").ModelProto.FromString(model)).nodes) == len(gs.load("good.onnx").nodes)
    arrays, told = command_line("run", "good.onnx", "-o", "-").communicate(timeout=60)
    Path("out.npz").write_bytes(arrays)
    assert np.load("out.npz")["scores"].shape == (2, 10)
    assert b"ONNX Runtime" in told
    empty = command_line("inspect", "-", stdin=subprocess.DEVNULL)
    _, told = empty.communicate(timeout=60)
    assert empty.returncode == 2
    assert b"where: standard input\n  fix: " in told


def test_names_and_terminals_that_are_no_unicode():
    shutil.copy(DEMO, b"\xff.onnx")
    shown = command_line("inspect", b"\xff.onnx", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, told = shown.communicate(timeout=60)
    assert (shown.returncode, told) == (0, b"")
    assert out.startswith(b"\\udcff.onnx: graph")


def test_interrupted():
    search = command_line("bisect", "good.onnx", "--check", "sleep 60")
    deadline = time.monotonic() + 60
    while not list(Path().glob("bisect/part/*.onnx")) and time.monotonic() < deadline:
        time.sleep(0.05)
    search.send_signal(signal.SIGINT)
    out, told = search.communicate(timeout=60)
    assert search.returncode == 130
    assert (out, told) == (b"", b"onnx-gs: interrupted\n")
