"""`onnx-gs check`, `build`, `describe`, `run`, `compare`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onnx_gs.cli.main import main
from tests.support.rewrites import model

GOOD = "g (float[n,3] x) => (float[n,3] y) { y = Add (x, x) }"
BLOCKED = "g (float[4] x) => (int64[1] y) { y = ArgMax <axis = 0> (x) }"
BRANCH = """g (float[2] x, bool p) => (float[2] y) {
    y = If (p) <then_branch = t () => (float[2] a) { a = Exp (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }> }"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", GOOD), ("blocked", BLOCKED), ("branch", BRANCH), ("other", GOOD.replace("Add (x, x)", "Neg (x)"))):
        (tmp_path / f"{name}.onnx").write_bytes(model(text).SerializeToString())
    return tmp_path


def said(capsys, *arguments, status=0):
    assert main(list(arguments)) == status
    return capsys.readouterr()


def test_check_says_a_remedy_once(files, capsys):
    text = "g (float[2,2] x) => (float[2,2] y) { " + " ".join(f"{b} = Mystery ({a})" for a, b in ("xa", "ab", "bc", "cd", "de", "ey")) + " }"
    (files / "many.onnx").write_bytes(model(text).SerializeToString())
    out = said(capsys, "check", "many.onnx", "--static", "--target", "rtx-1.7", status=1).out
    assert out.count("remedy: ") == out.count("[unknown-op]") == 1
    assert out.count("  also: graph 'g' > node #") == 2
    assert "  and 3 more (--json has all)\n" in out
    found = json.loads(said(capsys, "check", "many.onnx", "--static", "--target", "rtx-1.7", "--json", status=1).out)
    assert len(found["blockers"]) == 6


def test_check_tells_blockers_and_gives_a_status(files, capsys):
    assert "ready for rtx-1.7" in said(capsys, "check", "good.onnx", "--static", "--target", "rtx-1.7").out
    out = said(capsys, "check", "blocked.onnx", "--static", "--target", "rtx-1.7", status=1).out
    assert "argmax-1d" in out
    assert "remedy" in out
    assert "`onnx-gs prepare` runs legalize-ops" in out
    assert "TensorRT itself was not asked" in out
    found = json.loads(said(capsys, "check", "blocked.onnx", "--static", "--target", "rtx-1.7", "--json", status=1).out)
    (blocker,) = found["blockers"]
    assert blocker["id"] == "argmax-1d"
    assert blocker["path"] == "graph 'g' > node #0 (ArgMax)"
    assert found["result"]["checked_by"] == ["table"]
    assert not said(capsys, "check", "blocked.onnx", "--static", "--target", "rtx-1.7", "--quiet", status=1).out


def test_check_refuses_an_unknown_target(files, capsys):
    assert "'cuda' is no target" in said(capsys, "check", "good.onnx", "--target", "cuda", status=2).err


def test_check_asks_the_library(files, capsys):
    pytest.importorskip("tensorrt_rtx")
    found = json.loads(said(capsys, "check", "blocked.onnx", "--json", status=1).out)
    assert found["result"]["checked_by"] == ["table", "parser"]
    assert found["blockers"][0]["by"] == "parser"
    found = json.loads(said(capsys, "check", "good.onnx", "--json", "--dims", "n=1..2..3").out)
    assert found["result"]["checked_by"] == ["table", "parser", "builder"]
    assert json.loads(said(capsys, "check", "good.onnx", "--json", "--no-build").out)["result"]["checked_by"] == ["table", "parser"]


def test_build_writes_an_engine_and_tells(files, capsys):
    pytest.importorskip("tensorrt_rtx")
    out = said(
        capsys,
        "build",
        "good.onnx",
        "-o",
        "m.engine",
        "--shapes",
        "x:1x3..2x3..4x3",
        "--workspace",
        "64MiB",
        "--flags",
        "strict-nans",
        "--optimization-level",
        "1",
    ).out
    assert "left to tune" in out
    assert (files / "m.engine").stat().st_size > 0
    found = json.loads(said(capsys, "build", "good.onnx", "-o", "m.engine", "--dims", "n=1..2..4", "--memory-pool", "tactic_dram=1G", "--json").out)
    assert found["result"]["profiles"] == [{"x": "1x3..2x3..4x3"}]
    assert found["result"]["engine_bytes"] == (files / "m.engine").stat().st_size


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["blocked.onnx", "-o", "m.engine"], "at least 2 dimensions"),
        (["good.onnx", "-o", "m.engine", "--flags", "fp16"], "builder flag 'FP16' is unknown"),
        (["good.onnx", "-o", "m.engine", "--shapes", "x:4x3..2x3..8x3"], "not in order"),
        (["good.onnx", "-o", "m.engine", "--workspace", "lots"], "is no size"),
        (["none.onnx", "-o", "m.engine"], "No such file"),
        (["good.onnx", "-o", "-"], "cannot be written to standard output"),
    ],
)
def test_build_gives_one_error(files, capsys, arguments, what):
    pytest.importorskip("tensorrt_rtx")
    err = said(capsys, "build", *arguments, status=2).err
    assert what in err
    assert err.startswith("onnx-gs build: error:")
    assert not (files / "m.engine").exists()


def test_describe_shows_constructs(files, capsys):
    pytest.importorskip("tensorrt_rtx")
    assert "conditional 'node_of_y'  from graph 'g' > node #0 (If)" in said(capsys, "describe", "branch.onnx").out.replace("\n", "")
    assert "lowered by the layer API" in said(capsys, "describe", "branch.onnx", "--layer-api").out
    found = json.loads(said(capsys, "describe", "branch.onnx", "--json").out)
    assert found["result"]["constructs"][0]["kind"] == "conditional"
    assert "UNARY" in said(capsys, "describe", "branch.onnx", "--layers").out


def test_a_file_that_is_no_model_is_not_taken_for_an_empty_one(files, capsys):
    pytest.importorskip("tensorrt_rtx")
    (files / "notes.txt").write_text("hello world\n")
    for arguments in (["describe", "notes.txt"], ["build", "notes.txt", "-o", "m.engine"]):
        assert "it is no ONNX model" in said(capsys, *arguments, status=2).err


def test_run_and_compare_models(files, capsys):
    np.savez("in.npz", x=np.float32([[1, 2, 3]]))
    said(capsys, "run", "good.onnx", "--inputs", "in.npz", "-o", "out.npz")
    assert np.load("out.npz")["y"].tolist() == [[2, 4, 6]]
    assert "same" in said(capsys, "compare", "good.onnx", "good.onnx").out
    found = json.loads(said(capsys, "compare", "good.onnx", "other.onnx", "--feeds", "in.npz", "--json", status=1).out)
    assert found["result"]["first"] == "y"
    (files / "bad.npz").write_bytes(b"no")
    assert "is no .npz file" in said(capsys, "run", "good.onnx", "--inputs", "bad.npz", status=2).err


def test_an_engine_without_a_gpu_is_one_error(files, capsys):
    pytest.importorskip("tensorrt_rtx")
    from onnx_gs.trt import cuda

    if cuda.device_count():
        pytest.skip("there is a GPU")
    (files / "m.engine").write_bytes(b"engine")
    np.savez("in.npz", x=np.float32([[1, 2, 3]]))
    for arguments in (["run", "m.engine", "--inputs", "in.npz"], ["describe", "m.engine"], ["compare", "good.onnx", "m.engine"]):
        assert "CUDA driver" in said(capsys, *arguments, status=2).err
    assert "an engine needs inputs" in said(capsys, "run", "m.engine", status=2).err
