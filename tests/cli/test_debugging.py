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
    assert re.search(r"a +float32 +N × 4", text)


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
