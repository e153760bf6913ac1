"""extract, bisect, diff, convert and compare --layerwise from the command line: results, statuses, JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_gs.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
  a = Mul(x, w)
  b = Floor(a)
  d = Add(a, b)
  y = Tanh(d)
}"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return str(path)


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def test_extract_and_record(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "part.onnx"
    np.savez(tmp_path / "feeds.npz", x=np.ones((2, 4), np.float32))
    arguments = ["extract", model, "--inputs", "a", "--outputs", "d", "-o", str(out), "--record", str(tmp_path / "rec"), "--feeds", str(tmp_path / "feeds.npz")]
    assert main([*arguments, "--json"]) == 0
    assert told(capsys)["result"]["inputs"] == ["a"]
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Floor", "Add"]
    stored = onnx.numpy_helper.to_array(onnx.load_tensor(str(tmp_path / "rec" / "test_data_set_0" / "input_0.pb")))
    assert np.array_equal(stored, np.tile(np.float32([1, 2, 3, 4]), (2, 1)))
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "recorded 1 input and 1 output in" in text
    assert re.search(r"float32 +N × 4 +a\b", text)


def test_extract_says_what_is_wrong(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", model, "--outputs", "nope", "-o", str(tmp_path / "x.onnx")]) == 2
    assert "no tensor or node is named 'nope'" in capsys.readouterr().err
    assert main(["extract", model, "--outputs", "d", "--op", "Add", "-o", str(tmp_path / "x.onnx")]) == 2
    assert not (tmp_path / "x.onnx").exists()


def test_bisect(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "check.py"
    script.write_text("import sys, onnx\nsys.exit(any(n.op_type == 'Floor' for n in onnx.load(sys.argv[1]).graph.node))\n")
    out = tmp_path / "culprit.onnx"
    arguments = ["bisect", model, "--check", f"{sys.executable} {script} {{model}}", "--folder", str(tmp_path / "work"), "-o", str(out), "--json"]
    assert main(arguments) == 1
    assert "Floor" in told(capsys)["result"]["nodes"][0]
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Floor"]


def test_diff(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = onnx.load(model)
    other.graph.node[1].op_type = "Ceil"
    onnx.save(other, tmp_path / "other.onnx")
    assert main(["diff", model, model]) == 0
    assert "no differences" in capsys.readouterr().out
    assert main(["diff", model, str(tmp_path / "other.onnx"), "--html", str(tmp_path / "d.html"), "--json"]) == 1
    assert "Floor -> Ceil" in told(capsys)["result"]["changes"][0]["detail"]
    assert "Floor -&gt; Ceil" in (tmp_path / "d.html").read_text()


def test_compare_layerwise(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = onnx.load(model)
    other.graph.node[1].op_type = "Ceil"
    onnx.save(other, tmp_path / "other.onnx")
    assert main(["compare", model, str(tmp_path / "other.onnx"), "--layerwise", "--plot", str(tmp_path / "e.svg"), "--json"]) == 1
    assert told(capsys)["result"]["differing"][0]["name"] == "b"
    assert (tmp_path / "e.svg").read_text().startswith("<svg")
    assert main(["compare", model, model, "--layerwise"]) == 0
    assert "Tensors that differ" not in capsys.readouterr().out


def test_convert_opset_and_text(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, back = tmp_path / "m.txt", tmp_path / "back.onnx"
    assert main(["convert", model, "-o", str(text)]) == 0
    assert "Tanh" in text.read_text()
    assert main(["convert", str(text), "-o", str(back), "--opset", "20"]) == 0
    assert onnx.load(back).opset_import[0].version == 20
    assert main(["convert", model, "-o", str(back), "--opset", "9999"]) == 2
    assert "not known" in capsys.readouterr().err


def test_diff_tells_of_constants_that_are_stored_otherwise_in_one_line(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace(" <float[4] w = {1.0, 2.0, 3.0, 4.0}>", "").replace("a = Mul", "w = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>()\n  a = Mul")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "nodes.onnx")
    assert main(["diff", model, str(tmp_path / "nodes.onnx")]) == 0
    assert "1 constant is a Constant node" in capsys.readouterr().out
    assert main(["diff", model, str(tmp_path / "nodes.onnx"), "--constants"]) == 1
    assert "+ node: graph 'g' > node #0 (Constant)" in capsys.readouterr().out


def test_every_command_writes_the_form_that_the_name_asks_for(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = {
        "convert": [], "cleanup": [], "fold": [], "lower": [], "prepare": [], "extract": ["--outputs", "d"], "bind": ["--bind", "N=2"],
    }  # fmt: skip
    for command, more in commands.items():
        out = tmp_path / f"{command}.json"
        assert main([command, model, "-o", str(out), "--quiet", *more]) == 0
        assert json.loads(out.read_text())["graph"]["node"]
        assert main([command, model, "-o", str(tmp_path / "out.engine"), *more]) == 2
        err = capsys.readouterr().err
        assert "a model is not written as '.engine'" in err
        assert ".textproto" in err
    assert main(["build", model, "-o", str(tmp_path / "engine.onnx")]) == 2
    assert "an engine is no ONNX file" in capsys.readouterr().err
    assert main(["view", model, "-o", str(tmp_path / "page.svg")]) == 2
    assert "*.html" in capsys.readouterr().err
    assert main(["run", model, "-o", str(tmp_path / "out.json")]) == 2
    assert "*.npz" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.engine")) + list(tmp_path.glob("page*")) + list(tmp_path.glob("out.*"))


def test_models_are_read_by_their_extension(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("m.textproto", "m.json", "m.onnxtxt"):
        assert main(["convert", model, "-o", str(tmp_path / name), "--quiet"]) == 0
        assert main(["diff", model, str(tmp_path / name)]) == 0
        assert main(["compare", model, str(tmp_path / name)]) == 0
        assert main(["run", str(tmp_path / name)]) == 0
    capsys.readouterr()


PICKY = """<ir_version: 9, opset_import: ["" : 18]>
g (float[2, 3] x, int64[1] s) => (float[K] y) { a = Neg(x)  y = Reshape(a, s) }"""


def test_made_up_inputs_that_do_not_fit_point_to_feeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(tmp_path / "picky.onnx"), str(tmp_path / "out.onnx")
    onnx.save(onnx.parser.parse_model(PICKY), path)
    record = str(tmp_path / "rec")
    commands = (
        ["run", path], ["compare", path, path], ["compare", path, path, "--layerwise"], ["extract", path, "--outputs", "y", "-o", out, "--record", record],
    )  # fmt: skip
    for arguments in commands:
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "values of 'x', 's' were made up; give ones that the model runs on with --feeds FILE.npz" in said.err
    assert not (tmp_path / "out.onnx").exists()  # nothing is written where the status is 2
    np.savez(tmp_path / "feeds.npz", s=np.array([6]))  # the others are made up
    for arguments in commands:
        assert main([*arguments, "--feeds", str(tmp_path / "feeds.npz")]) == 0
    capsys.readouterr()
    np.savez(tmp_path / "feeds.npz", z=np.array([6]))
    for arguments in commands:
        assert main([*arguments, "--feeds", str(tmp_path / "feeds.npz")]) == 2
        assert "'z', which is no input" in capsys.readouterr().err


def test_options_that_would_be_ignored_are_refused(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x.onnx")
    for arguments, what in (
        (["extract", model, "--outputs", "d", "-o", out, "--trip", "2"], "--trip means something with --record only"),
        (["extract", model, "--outputs", "d", "-o", out, "--feeds", "f.npz"], "--feeds means something with --record only"),
        (["extract", model, "--outputs", "d", "-o", out, "--hops", "2"], "--hops means something with --around only"),
        (["extract", model, "--op", "Add", "--around", "d", "-o", out], "give one of them"),
        (["compare", model, model, "--plot", "e.svg"], "--plot means something with --layerwise only"),
        (["compare", model, model, "--evaluators", "reference"], "--evaluators means something with --layerwise only"),
        (["compare", model, "m.engine", "--layerwise"], "has no extension of one"),
    ):
        assert main(arguments) == 2
        assert what in capsys.readouterr().err


def test_extract_by_operator_says_where_else_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[2] x, bool c) => (float[2] y) {
      [pick] y = If(c) <then_branch = t () => (float[2] m) { [deep] m = Neg(x) }, else_branch = e () => (float[2] n) { n = Abs(x) }>
    }"""
    path, out = str(tmp_path / "m.onnx"), str(tmp_path / "x.onnx")
    onnx.save(onnx.parser.parse_model(text), path)
    assert main(["extract", path, "--op", "Neg", "-o", out]) == 2
    assert "by --nodes: node 'pick' (If) > then_branch > node 'deep' (Neg)" in capsys.readouterr().err
    assert main(["extract", path, "--op", "if", "-o", out]) == 2
    assert "did you mean If?" in capsys.readouterr().err
    assert main(["extract", path, "--op", "Softmax", "-o", out]) == 2
    assert "`onnx-gs inspect` lists the operators" in capsys.readouterr().err


def test_bisect_adds_the_model_where_the_command_has_no_place_for_it(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "check.py"
    script.write_text("import sys, onnx\nsys.exit(any(n.op_type == 'Floor' for n in onnx.load(sys.argv[1]).graph.node))\n")
    assert main(["bisect", model, "--check", f"{sys.executable} {script}", "--folder", str(tmp_path / "work"), "--json"]) == 1
    assert "Floor" in told(capsys)["result"]["nodes"][0]
    assert main(["bisect", "--help"]) == 0
    assert "without {model} or {folder} the file is added at its end" in " ".join(capsys.readouterr().out.split())


def test_run_of_what_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.txt", "a.onnx", "a.engine", "missing.engine"):
        if "missing" not in name:
            (tmp_path / name).write_text("hello\n")
        assert main(["run", str(tmp_path / name)]) == 2
        err = capsys.readouterr().err
        wanted = {"a.txt": "read as ONNX text", "a.onnx": "no ONNX model", "a.engine": "is taken for an engine", "missing.engine": "no such file"}
        assert wanted[name] in err


def test_wrong_values_are_one_error(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x.onnx")
    (tmp_path / "text.npz").write_text("hello")
    np.save(tmp_path / "one.npy", np.ones(2))
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    for arguments, what in (
        (["lower", model, "-o", out, "--max-nodes", "none"], "'none' is no number"),
        (["lower", model, "-o", out, "--bound", "loop=3"], "no Loop node has that name"),
        (["lower", model, "-o", out, "--bound", "loop=x"], "no number of trips"),
        (["extract", model, "-o", out, "--around", "d", "--hops", "-2"], "--hops -2 is less than 0"),
        (["extract", model, "-o", out, "--outputs", "d > body > e"], "node 'd' is not there"),
        (["bisect", model, "--check", "true", "--fail-pattern", "("], "no regular expression"),
        (["bisect", model, "--check", "no-such-command", "--folder", str(tmp_path / "b")], "no such file or directory: 'no-such-command'"),
        (["diff", "-", "-"], "both are '-'"),
        (["run", model, "--seed", "-1"], "no number of at least 0"),
        (["check", model, "--static", "--dims", "N=1..2..3"], "--static"),
        (["run", model, "--feeds", str(tmp_path / "text.npz")], "it is another kind of file"),
        (["run", model, "--feeds", str(tmp_path / "one.npy")], "it is another kind of file"),
        (["run", model, "--feeds", str(tmp_path / "none.npz")], "there is no such file"),
        (["run", model, "--feeds", str(tmp_path / "objects.npz")], "is no .npz file of arrays"),
    ):
        assert main(arguments) == 2, arguments
        said = capsys.readouterr()
        assert what in said.err
        assert "Traceback" not in said.err
        assert said.out == ""


FRAMED = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, W] x, int64[N] rows) => (float[N, M, 32] y) <float[2] t = {1.0, 2.0}, int64[3] s = {0, -1, 32}> {
  a = Reshape(x, s)  f = Gather(t, rows)  n = ReduceSum<keepdims = 0>(f)  y = Mul(a, n)
}"""


def test_every_command_looks_for_inputs_that_the_model_runs_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(tmp_path / "framed.onnx"), str(tmp_path / "out.onnx")
    onnx.save(onnx.parser.parse_model(FRAMED), path)
    for arguments in (
        ["run", path], ["compare", path, path], ["compare", path, path, "--layerwise"], ["fold", path, "-o", out, "--verify"],
        ["extract", path, "--outputs", "a", "-o", out, "--record", str(tmp_path / "rec")],
    ):  # fmt: skip
        assert main(arguments) == 0
    assert "(ONNX Runtime, optimizations and weight prepacking off)" in capsys.readouterr().out


def test_a_model_that_cannot_be_verified_says_what_was_made_up_and_the_ways_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(tmp_path / "framed.onnx"), str(tmp_path / "out.onnx")
    onnx.save(onnx.parser.parse_model(FRAMED.replace("32", "1000")), path)
    assert main(["fold", path, "-o", out, "--verify"]) == 2
    said = capsys.readouterr().err
    assert "none of the inputs made up for it" in said
    assert "--feeds FILE.npz, sizes with --bind DIM=N" in said
    np.savez(tmp_path / "feeds.npz", x=np.zeros((2, 7), np.float32))
    assert main(["fold", path, "-o", out, "--verify", "--feeds", str(tmp_path / "feeds.npz")]) == 2
    assert "none of the values given, with 'rows' made up" in capsys.readouterr().err
    np.savez(tmp_path / "feeds.npz", x=np.zeros((2, 7), np.float32), rows=np.array([0, 1]))
    assert main(["fold", path, "-o", out, "--verify", "--feeds", str(tmp_path / "feeds.npz")]) == 2
    assert "none of the values given: " in capsys.readouterr().err
    assert main(["prepare", path, "-o", out, "--verify", "--bind", "W=1000", "--quiet"]) == 0


def test_models_with_other_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = '<ir_version: 9, opset_import: ["" : 18]>\n'
    both, less, else_ = (str(tmp_path / name) for name in ("both.onnx", "less.onnx", "else.onnx"))
    onnx.save(onnx.parser.parse_model(header + "g (float[2] x, float[2] s) => (float[2] y) { y = Mul(x, s) }"), both)
    onnx.save(onnx.parser.parse_model(header + "g (float[2] x) => (float[2] y) <float[2] s = {2.0, 3.0}> { y = Mul(x, s) }"), less)
    onnx.save(onnx.parser.parse_model(header + "g (float[2] z) => (float[2] y) { y = Neg(z) }"), else_)
    np.savez(tmp_path / "feeds.npz", x=np.float32([1, 5]), s=np.float32([2, 3]))
    fed = ["--feeds", str(tmp_path / "feeds.npz")]
    for more in ([], ["--layerwise"]):
        assert main(["compare", both, less, *fed, *more]) == 0
        assert main(["compare", less, both, *fed, *more]) == 0
        capsys.readouterr()
        assert main(["compare", less, both, *more]) == 2
        assert "only the second has 's'" in capsys.readouterr().err
        assert main(["compare", both, else_, *more]) == 2
        assert "only the second has 'z', only the first 'x', 's'" in capsys.readouterr().err
