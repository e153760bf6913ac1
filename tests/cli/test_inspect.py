"""`onnx-gs inspect`: facts that are right, for people and as JSON."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.cli.main import main

DEMO = Path(__file__).parents[2] / "examples" / "models" / "keyword_spotter.onnx"


def inspect(capsys, *arguments) -> dict:
    assert main(["inspect", *map(str, arguments), "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


def test_demo_model(capsys):
    found = inspect(capsys, DEMO)
    result = found["result"]
    assert (found["command"], found["model"]) == ("inspect", str(DEMO))
    assert found["seconds"] >= 0
    assert result["bytes"] == DEMO.stat().st_size
    assert result["opsets"] == {"ai.onnx": 17}
    assert result["producer"].startswith("pytorch ")
    assert result["inputs"] == [{"name": "features", "dtype": "float32", "shape": ["batch", 40, 48]}]
    assert result["outputs"] == [{"name": "scores", "dtype": "float32", "shape": ["batch", 10]}]
    bodies = [(body["op"], body["path"].rsplit(" > ", 1)[1]) for body in result["bodies"]]
    assert bodies == [("If", "then_branch"), ("If", "else_branch"), ("Loop", "body")]
    assert {"domain": "ai.onnx", "op": "Loop", "count": 1} in result["ops"]
    assert result["node_count"] == sum(op["count"] for op in result["ops"])
    assert len(result["weights"]) == 10
    assert result["weights"][0] == {
        "name": "recurrence.read.weight", "dtype": "float32", "shape": [48, 256], "bytes": 48 * 256 * 4, "where": "initializer",
    }  # fmt: skip


def test_counts_agree_with_onnx(capsys):
    import onnx

    def count(graph):
        bodies = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
        return len(graph.node) + sum(map(count, bodies))

    assert inspect(capsys, DEMO)["result"]["node_count"] == count(onnx.load(DEMO).graph)


def test_all_weights_and_nodes(capsys):
    result = inspect(capsys, DEMO, "--weights", "--nodes")["result"]
    assert len(result["weights"]) == result["weight_count"] > 10
    assert result["weight_bytes"] == sum(weight["bytes"] for weight in result["weights"])
    assert len(result["nodes"]) == result["node_count"]
    conv = next(node for node in result["nodes"] if node["name"] == "/mix/Conv")
    assert conv["inputs"] == ["/Add_output_0", "mix.weight", "mix.bias"]
    assert conv["attributes"]["pads"] == [2, 2]
    inner = next(node for node in result["nodes"] if node["op"] == "Tanh")
    assert inner["path"].endswith("> node '/recurrence/Loop' (Loop) > body")


def test_packed_weights_are_counted_as_stored(capsys, tmp_path):
    x, y = gs.Variable("x", np.float32, (5,)), gs.Variable("y", np.float32, (5,))
    weight = gs.Constant("w", np.arange(5).astype(ml_dtypes.int4))
    scale = gs.Constant("s", np.array(2, np.float32))
    cast = gs.Variable("c")
    nodes = [gs.Node("DequantizeLinear", inputs=[weight, scale], outputs=[cast]), gs.Node("Add", inputs=[x, cast], outputs=[y])]
    path = tmp_path / "packed.onnx"
    gs.save(gs.Graph(nodes, [x], [y], opset=21), path)
    weights = inspect(capsys, path)["result"]["weights"]
    assert [(w["name"], w["dtype"], w["bytes"]) for w in weights] == [("s", "float32", 4), ("w", "int4", 3)]


def test_sequences_functions_and_defaults(capsys, tmp_path):
    import onnx

    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "f" : 1]>
           g (float[2] x, float[2] w) => (seq(float[2]) y) <float[2] w = {1, 2}> { z = f.twice (x)  v = Add (z, w)  y = SequenceConstruct (v, v) }
           <domain: "f", opset_import: ["" : 17]> twice (a) => (b) { b = Add (a, a) }"""
    )
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    result = inspect(capsys, path)["result"]
    assert result["outputs"] == [{"name": "y", "dtype": "float32", "shape": [2], "type": "sequence"}]
    assert [fact.get("has_default", False) for fact in result["inputs"]] == [False, True]
    assert result["functions"] == [{"domain": "f", "name": "twice", "node_count": 1, "inputs": 1, "outputs": 1}]
    assert {"domain": "f", "op": "twice", "count": 1} in result["ops"]
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "sequence of float32" in text
    assert "f::twice" in text


def test_tables(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["inspect", str(DEMO), "--nodes", "--weights"]) == 0
    text = capsys.readouterr().out
    for expected in ("features", "batch × 40 × 48", "Operators", "Loop", "Bodies", "Weights", "recurrence.read.weight", "/mix/Conv"):
        assert expected in text


def test_titles_are_not_folded_and_constants_are_told(capsys, tmp_path):
    x, c, y = gs.Variable("x", np.float32, (2,)), gs.Variable("c"), gs.Variable("y", np.float32, (2,))
    constant = gs.Node("Constant", attrs={"value": gs.Constant("", np.ones(2, np.float32))}, outputs=[c])
    path = tmp_path / "m.onnx"
    gs.save(gs.Graph([constant, gs.Node("Add", inputs=[x, c], outputs=[y])], [x], [y], opset=18), path)
    assert main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Operators (2 nodes, 1 of them Constant)" in lines
    assert "Weights (1, 8 B)" in lines


def test_quiet_still_answers(capsys):
    assert main(["inspect", str(DEMO), "--quiet"]) == 0
    assert "features" in capsys.readouterr().out


def test_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DEMO.read_bytes())))
    result = inspect(capsys, "-")["result"]
    assert result["inputs"][0]["name"] == "features"
    assert "bytes" not in result


@pytest.mark.parametrize("columns", ["40", "200"])
def test_any_width(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["inspect", str(DEMO)]) == 0
    assert "features" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_missing_data_file_is_named_and_the_rest_is_shown(damage, capsys, tmp_path):
    path, data = tmp_path / "m.onnx", tmp_path / "weights.bin"
    gs.save(gs.load(DEMO), path, external_data="weights.bin")
    whole = inspect(capsys, path, "--weights")
    assert "missing_data" not in whole["result"]
    assert whole["warnings"] == []
    data.unlink() if damage == "missing" else data.write_bytes(data.read_bytes()[:100])
    found = inspect(capsys, path, "--weights")
    assert [entry["file"] for entry in found["result"].pop("missing_data")] == ["weights.bin"]
    assert found["result"] == whole["result"]
    assert "'weights.bin' is missing or cut short" in found["warnings"][0]
    assert main(["inspect", str(path)]) == 0
    assert "warning: data file 'weights.bin'" in capsys.readouterr().out
    assert main(["cleanup", str(path), "-o", str(tmp_path / "out.onnx")]) == 2
    assert "weights.bin" in capsys.readouterr().err


def nested(depth: int, siblings: int) -> gs.Graph:
    cond = gs.Variable("cond", bool, ())
    x = gs.Variable("x", np.float32, (2,))

    def level(k: int) -> gs.Graph:
        out = gs.Variable(f"out{k}", np.float32, (2,))
        if k == depth:
            return gs.Graph([gs.Node("Neg", inputs=[x], outputs=[out])], outputs=[out])
        return gs.Graph([gs.Node("If", f"if{k}", {"then_branch": level(k + 1), "else_branch": level(depth)}, [cond], [out])], outputs=[out])

    graph = gs.Graph(inputs=[x, cond], opset=18)
    for k in range(siblings):
        body = level(1)
        y = gs.Variable(f"y{k}", np.float32, (2,))
        graph.nodes.append(gs.Node("If", f"top{k}", {"then_branch": body, "else_branch": level(depth)}, [cond], [y]))
        graph.outputs.append(y)
    return graph


def test_bodies_of_one_form_are_one_row(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "m.onnx"
    gs.save(nested(3, 50), path)
    result = inspect(capsys, path)["result"]
    assert len(result["bodies"]) == 50 * 6
    assert [(b["depth"], b["label"]) for b in result["bodies"][:2]] == [(1, "node 'top0' (If) > then_branch"), (1, "node 'top0' (If) > else_branch")]
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "Bodies (300)" in text
    assert "node 'top0' (If) > then_branch and 49 more like it" in text
    assert "   node 'if1' (If) > then_branch and 49 more like it" in text
    assert "top1" not in text
    assert main(["inspect", str(path), "--all"]) == 0
    assert "graph 'onnx_graphsurgeon_graph' > node 'top49' (If) > then_branch > node 'if1' (If) > then_branch" in capsys.readouterr().out


def test_many_bodies_are_cut(capsys, tmp_path):
    path = tmp_path / "m.onnx"
    gs.save(nested(25, 1), path)
    assert main(["inspect", str(path)]) == 0
    assert "… and 20 more (--all lists each)" in capsys.readouterr().out
