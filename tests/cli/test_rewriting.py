"""The commands that rewrite: right results, reports, standard streams, verification."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.cli.main import main
from onnx_gs.evaluate import compare, feeds, onnxruntime

DEMO = Path(__file__).parents[2] / "examples" / "models" / "keyword_spotter.onnx"
COMMANDS = ["cleanup", "fold", "lower", "prepare"]


def same_results(before: Path, after: Path) -> None:
    a, b = gs.load(before), gs.load(after)
    for seed, batch in ((0, 1), (1, 3)):
        fed = feeds.make(a, seed, dims={"batch": batch})
        one, other = onnxruntime.run(a, fed), onnxruntime.run(b, fed)
        assert list(one) == list(other)
        assert all(compare.compare(one[name], other[name]) is None for name in one)


@pytest.mark.parametrize("command", COMMANDS)
def test_demo_model(command, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main([command, str(DEMO), "-o", str(out), "--verify", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert found["command"] == command
    assert found["result"]["output"] == str(out)
    assert found["result"]["before"]["nodes"] == 68
    assert found["verify"] == {"result": "same", "runs": 3, "skipped": [], "outputs": {}, "random": []}
    assert all({"pass", "node", "path"} <= set(entry) for entry in found["rewritten"])
    assert all({"pass", "node", "path", "reason"} <= set(entry) for entry in found["declined"])
    same_results(DEMO, out)
    interface = [(t.name, tuple(t.shape)) for t in (*gs.load(out).inputs, *gs.load(out).outputs)]
    assert interface == [("features", ("batch", 40, 48)), ("scores", ("batch", 10))]


@pytest.mark.parametrize("command", COMMANDS)
def test_weights_of_the_result_are_those_that_are_stored(command, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    x, y = gs.Variable("x", np.float32, (2, 8)), gs.Variable("y", np.float32, (2, 16))
    turned = gs.Variable("turned")
    weight = gs.Constant("w", np.ones((16, 8), np.float32))
    nodes = [gs.Node("Transpose", inputs=[weight], outputs=[turned]), gs.Node("MatMul", inputs=[x, turned], outputs=[y])]
    gs.save(gs.Graph(nodes, [x], [y], opset=17), tmp_path / "model.onnx")
    assert main([command, str(tmp_path / "model.onnx"), "-o", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["before"]["weight_bytes"] == result["after"]["weight_bytes"] == 16 * 8 * 4


def test_fold_decides_the_if_and_resolves_shapes(tmp_path):
    out = tmp_path / "out.onnx"
    assert main(["fold", str(DEMO), "-o", str(out), "--quiet"]) == 0
    ops = [node.op for node in gs.load(out).nodes]
    assert "If" not in ops
    assert len(ops) <= 20


def test_prepare_lowers_the_loop(tmp_path):
    out = tmp_path / "out.onnx"
    assert main(["prepare", str(DEMO), "-o", str(out), "--quiet"]) == 0
    ops = [node.op for node in gs.load(out).nodes]
    assert "Loop" not in ops
    assert ops.count("Tanh") == 6


def test_only_and_skip(tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["fold", str(DEMO), "-o", str(out), "--only", "fold-constants,cleanup", "--json"]) == 0
    ran = {entry["pass"] for entry in json.loads(capsys.readouterr().out)["rewritten"]}
    assert not [name for name in ran if name.startswith(("share-", "eliminate-", "fold-shape"))]
    assert main(["fold", str(DEMO), "-o", str(out), "--skip", "share-constants", "--json"]) == 0
    assert "share-constants" not in {entry["pass"] for entry in json.loads(capsys.readouterr().out)["rewritten"]}
    assert main(["fold", str(DEMO), "-o", str(out), "--only", "no-such-pass"]) == 2
    assert "no-such-pass" in capsys.readouterr().err


def test_report_for_people(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "out.onnx"
    assert main(["fold", str(DEMO), "-o", str(out), "--verify"]) == 0
    text = capsys.readouterr().out
    for expected in ("Rewritten", "fold-constants", "verified: the same bit for bit in 3 runs", "68 → "):
        assert expected in text


def test_quiet(tmp_path, capsys):
    assert main(["fold", str(DEMO), "-o", str(tmp_path / "out.onnx"), "--quiet", "--verify"]) == 0
    assert capsys.readouterr() == ("", "")


def test_standard_streams():
    command = [sys.executable, "-m", "onnx_gs.cli.main", "cleanup", "-", "-o", "-"]
    done = subprocess.run(command, input=DEMO.read_bytes(), capture_output=True, check=True)
    assert gs.load(io.BytesIO(done.stdout)).inputs[0].name == "features"
    assert b"nodes" in done.stderr


def test_result_may_replace_the_model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(DEMO.read_bytes())
    assert main(["fold", str(path), "-o", str(path), "--quiet"]) == 0
    assert path.stat().st_size < DEMO.stat().st_size
    same_results(DEMO, path)


def test_external_data(tmp_path):
    out = tmp_path / "out.onnx"
    assert main(["cleanup", str(DEMO), "-o", str(out), "--external-data", "weights.bin", "--quiet"]) == 0
    assert (tmp_path / "weights.bin").stat().st_size > 70_000
    same_results(DEMO, out)
    assert main(["cleanup", str(DEMO), "-o", "-", "--external-data", "weights.bin"]) == 2


def test_output_that_cannot_be_written(tmp_path, capsys):
    assert main(["cleanup", str(DEMO), "-o", str(tmp_path / "no" / "such" / "folder.onnx")]) == 2
    assert "folder.onnx" in capsys.readouterr().err


def test_output_is_required(capsys):
    assert main(["fold", str(DEMO)]) == 2
    assert "-o" in capsys.readouterr().err


def test_a_wrong_rewrite_is_found_and_nothing_written(tmp_path, capsys, monkeypatch):
    from onnx_gs.passes.cleanup import Cleanup

    def wrong(self, graph, report):
        relu = next(node for node in graph.nodes if node.op == "Relu")
        relu.op = "Abs"

    monkeypatch.setattr(Cleanup, "run", wrong)
    out = tmp_path / "out.onnx"
    assert main(["cleanup", str(DEMO), "-o", str(out), "--verify", "--json"]) == 1
    said = capsys.readouterr()
    assert "output 'scores' differs" in said.err
    assert json.loads(said.out)["verify"]["result"] == "different"
    assert not out.exists()


def test_random_outputs_are_no_difference(tmp_path, capsys):
    x, y, noise = gs.Variable("x", np.float32, (3,)), gs.Variable("y", np.float32, (3,)), gs.Variable("noise", np.float32, (3,))
    nodes = [gs.Node("Neg", inputs=[x], outputs=[y]), gs.Node("RandomNormalLike", inputs=[x], outputs=[noise])]
    path = tmp_path / "noisy.onnx"
    gs.save(gs.Graph(nodes, [x], [y, noise], opset=18), path)
    assert main(["fold", str(path), "-o", str(path), "--verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verify"]["result"] == "same"
    assert "RandomNormalLike" in [node.op for node in gs.load(path).nodes]


def test_a_model_that_cannot_run_is_said_to_be_so(tmp_path, capsys):
    x, y = gs.Variable("x", np.float32, (2, 3)), gs.Variable("y", np.float32, None)
    path = tmp_path / "unknown.onnx"
    gs.save(gs.Graph([gs.Node("Reshape", inputs=[x, gs.Constant("s", np.array([5]))], outputs=[y])], [x], [y], opset=18), path)
    assert main(["cleanup", str(path), "-o", str(path), "--verify"]) == 2
    assert "cannot be verified" in capsys.readouterr().err


def test_verify_with_values_of_ones_own(tmp_path, capsys):
    x, s, y = gs.Variable("x", np.float32, ("n", 11)), gs.Variable("s", np.int64, (1,)), gs.Variable("y", np.float32, None)
    path, out, feeds_file = tmp_path / "picky.onnx", tmp_path / "out.onnx", tmp_path / "feeds.npz"
    gs.save(gs.Graph([gs.Node("Reshape", inputs=[x, s], outputs=[y])], [x, s], [y], opset=18), path)
    assert main(["cleanup", str(path), "-o", str(out), "--verify"]) == 2  # made-up integers are below 10
    assert "--feeds" in capsys.readouterr().err
    np.savez(feeds_file, s=np.array([-1]))
    assert main(["cleanup", str(path), "-o", str(out), "--verify", "--feeds", str(feeds_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verify"]["runs"] == 3
    np.savez(feeds_file, s=np.array([44]), x=np.zeros((4, 11), np.float32))
    assert main(["cleanup", str(path), "-o", str(out), "--verify", "--feeds", str(feeds_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verify"]["runs"] == 1
    assert main(["cleanup", str(path), "-o", str(out), "--feeds", str(feeds_file)]) == 2
    assert "--verify" in capsys.readouterr().err
    np.savez(feeds_file, z=np.array([3, 4]))
    assert main(["cleanup", str(path), "-o", str(out), "--verify", "--feeds", str(feeds_file)]) == 2
    assert "'z', which is no input" in capsys.readouterr().err
    (tmp_path / "bad.npz").write_text("PK nothing")
    for bad in ("missing.npz", "bad.npz"):
        assert main(["cleanup", str(path), "-o", str(out), "--verify", "--feeds", str(tmp_path / bad)]) == 2
        assert "is no .npz file" in capsys.readouterr().err


def test_stated_dims_and_values(tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["prepare", str(DEMO), "-o", str(out), "--bind", "batch=3", "--verify", "--quiet"]) == 0
    assert list(gs.load(out).inputs[0].shape) == [3, 40, 48]
    for bad in (["--bind", "batch=x"], ["--bind", "batch"], ["--freeze", "nothing=1"], ["--freeze", "features=yes"]):
        assert main(["prepare", str(DEMO), "-o", str(out), *bad]) == 2
        assert capsys.readouterr().err.count("error:") == 1


def test_bind_writes_nothing_where_an_axis_stays_fixed(tmp_path, capsys):
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    x, y = (gs.Variable(name, np.float32, (2, 3)) for name in "xy")
    w = gs.Constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    gs.save(gs.Graph([gs.Node("Add", inputs=[x, w], outputs=[y])], [x], [y], opset=18), path)
    assert main(["bind", str(path), "-o", str(out), "--dynamic", "x:0:batch"]) == 1
    said = capsys.readouterr().out
    assert "make-dynamic" in said
    assert said.endswith("nothing written\n")
    assert not out.exists()
    assert main(["bind", str(path), "-o", str(out), "--dynamic", "x:0:batch", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["result"]["output"] is None


def test_bind_frees_inputs_that_share_a_size_together(tmp_path, capsys):
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    x, z, y = (gs.Variable(name, np.float32, (2, 3)) for name in "xzy")
    gs.save(gs.Graph([gs.Node("Add", inputs=[x, z], outputs=[y])], [x, z], [y], opset=18), path)
    command = ["bind", str(path), "-o", str(out)]
    assert main([*command, "--dynamic", "x:0:b", "--dynamic", "z:0:b", "--dynamic", "x:1:w", "--dynamic", "z:1:w", "--verify"]) == 0
    assert [list(t.shape) for t in gs.load(out).inputs] == [["b", "w"], ["b", "w"]]
    out.unlink()
    capsys.readouterr()
    assert main([*command, "--dynamic", "x:0:b", "--dynamic", "z:0:c"]) == 1
    assert "under the same name 'b'" in " ".join(capsys.readouterr().out.split())
    assert main([*command, "--dynamic", "x:0:b", "--dynamic", "x:1:b"]) == 2
    assert "'x' has the dim on two axes" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", ["bind", "lower", "prepare"])
def test_a_dim_without_a_name_is_bound_by_input_and_axis(tmp_path, capsys, command):
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    x, y = (gs.Variable(name, np.float32, (None, "n")) for name in "xy")
    w = gs.Constant("w", np.arange(12, dtype=np.float32).reshape(4, 3))  # which only x of shape [4, 3] or [1, 3] goes with
    gs.save(gs.Graph([gs.Node("Add", inputs=[x, w], outputs=[y])], [x], [y], opset=18), path)
    assert main([command, str(path), "-o", str(out), "--bind", "x:0=4", "--bind", "x:1=3", "--verify"]) == 0
    assert "verified: the same bit for bit in 3 runs" in capsys.readouterr().out
    assert list(gs.load(out).inputs[0].shape) == [4, 3]
    assert main([command, str(path), "-o", str(out), "--bind", "x:2=4"]) == 2
    assert "has no axis 2" in capsys.readouterr().err
    assert main([command, str(path), "-o", str(out), "--bind", "batch=4"]) == 2
    assert "bound by input and axis: x:0" in capsys.readouterr().err


def test_lines_stay_whole_where_output_is_no_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = tmp_path / "a_name_that_is_longer_than_forty_columns.onnx"
    assert main(["cleanup", str(DEMO), "-o", str(out)]) == 0
    assert f"{DEMO} → {out}: 68 → " in capsys.readouterr().out


def test_many_declined_for_one_reason_are_told_in_short(tmp_path, capsys):
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    x = gs.Variable("x", np.float32, (4, 4))
    graph = gs.Graph(inputs=[x], opset=18)
    for k in range(10):
        big = graph.layer(op="Tile", inputs=[np.full((1, 1), k, np.float32), np.array([100, 200 + k])], outputs=[f"big{k}"])[0]
        y = graph.layer(op="ReduceSum", inputs=[graph.layer(op="Add", inputs=[big, x], outputs=[f"a{k}"])[0]], outputs=[f"y{k}"])[0]
        y.dtype = np.float32
        graph.outputs.append(y)
    gs.save(graph, path)
    arguments = ["fold", str(path), "-o", str(out), "--only", "fold-constants", "--max-growth", "1000"]
    assert main([*arguments, "--json"]) == 0
    declined = json.loads(capsys.readouterr().out)["declined"]
    assert len(declined) == 10
    assert all(entry["reason"].endswith("grow by 1000 in all (max_growth)") for entry in declined)
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert text.count("would add") == 1
    assert " and 9 more" in text


def test_a_result_that_cannot_be_written_is_told_before_the_work(tmp_path, capsys):
    for out in (tmp_path, tmp_path / "missing" / "out.onnx"):
        assert main(["prepare", str(DEMO), "-o", str(out), "--verify"]) == 2
        said = capsys.readouterr()
        assert "file cannot be written" in said.err
        assert not said.out


def test_weights_beside_a_model_from_standard_input(tmp_path, monkeypatch, capsys):
    gs.save(gs.load(DEMO), tmp_path / "m.onnx", external_data="m.bin")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "m.onnx").read_bytes())))
    assert main(["fold", "-", "-o", str(tmp_path / "out.onnx")]) == 2
    assert "give the model's path instead of '-'" in capsys.readouterr().err


def test_what_blocks_is_told_and_the_result_written(tmp_path, capsys):
    x, y = gs.Variable("x", np.float32, (2, 2)), gs.Variable("y", np.float32, (2, 2))
    path, out = tmp_path / "custom.onnx", tmp_path / "out.onnx"
    gs.save(gs.Graph([gs.Node("Mystery", domain="example", inputs=[x], outputs=[y])], [x], [y], opset=18), path)
    assert main(["prepare", str(path), "-o", str(out), "--target", "rtx-1.7", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [blocker["op"] for blocker in found["blockers"]] == ["Mystery"]
    assert {"id", "title", "path", "tensor", "reason", "remedy"} <= set(found["blockers"][0])
    assert [node.op for node in gs.load(out).nodes] == ["Mystery"]
    assert main(["prepare", str(path), "-o", str(out), "--target", "rtx-1.7"]) == 1
    text = capsys.readouterr().out
    assert "In the way of" in text
    assert "     #0 (Mystery): example::Mystery is no local function\n" in text


def test_what_blocks_and_what_is_left_over_is_told_once_and_in_short(tmp_path, capsys):
    path, out = tmp_path / "branches.onnx", tmp_path / "out.onnx"
    prefix = "encoder/layers/attention/" * 4
    x, p = gs.Variable("x", np.float32, (6,)), gs.Variable("p", bool, ())
    graph = gs.Graph(inputs=[x, p], opset=18)
    for k in range(8):
        bodies = []
        for branch, shape in (("then", [2, 3]), ("else", [1, 2, 3])):
            made = gs.Variable(f"{prefix}{branch}{k}", np.float32, shape)
            bodies.append(
                gs.Graph(
                    [gs.Node("Reshape", inputs=[x, gs.Constant(f"{branch}_shape{k}", np.array(shape))], outputs=[made])], outputs=[made], opset=18
                )
            )
        chosen = gs.Variable(f"{prefix}chosen{k}", np.float32)
        graph.nodes.append(gs.Node("If", f"{prefix}If{k}", {"then_branch": bodies[0], "else_branch": bodies[1]}, [p], [chosen]))
        y = gs.Variable(f"y{k}", np.int64, (None,))
        graph.nodes.append(gs.Node("Shape", inputs=[chosen], outputs=[y]))
        graph.outputs.append(y)
    gs.save(graph, path)
    arguments = ["prepare", str(path), "-o", str(out), "--target", "rtx-1.7", "--skip", "merge-ifs"]
    assert main([*arguments, "--json"]) == 1
    everything = json.loads(capsys.readouterr().out)
    assert len(everything["blockers"]) == 8
    assert all(prefix in blocker["path"] for blocker in everything["blockers"])
    assert main(arguments) == 1
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) < 260
    assert prefix not in text
    assert text.count("differ in rank\n") == text.count("remedy:") == 1
    assert text.count("the condition is computed at run time") == 1
    assert " (If) and 7 more " in text
    assert "and 5 more (--json has all)" in text
    assert "… stands for what was left out (--json has all)" in text


def test_unknown_target(tmp_path, capsys):
    assert main(["prepare", str(DEMO), "-o", str(tmp_path / "out.onnx"), "--target", "abacus-3"]) == 2
    assert "abacus-3" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_a_refusal_is_the_only_thing_to_read(tmp_path, capsys, monkeypatch):
    from onnx_gs.passes.cleanup import Cleanup

    x, y = gs.Variable("x", np.float32, (2, 3)), gs.Variable("y", np.float32, None)
    path = tmp_path / "unknown.onnx"
    idle = gs.Node("Neg", inputs=[x], outputs=[gs.Variable("idle")])
    gs.save(gs.Graph([gs.Node("Reshape", inputs=[x, gs.Constant("s", np.array([5]))], outputs=[y]), idle], [x], [y], opset=18), path)
    assert main(["cleanup", str(path), "-o", str(path), "--verify"]) == 2
    assert capsys.readouterr().out == ""
    assert main(["fold", str(DEMO), "-o", str(tmp_path / "out.onnx"), "--external-data", "../w.bin"]) == 2
    assert capsys.readouterr().out == ""

    def wrong(self, graph, report):
        relu = next(node for node in graph.nodes if node.op == "Relu")
        relu.op = "Abs"
        report.rewrote(graph, relu)

    monkeypatch.setattr(Cleanup, "run", wrong)
    assert main(["cleanup", str(DEMO), "-o", str(tmp_path / "out.onnx"), "--verify"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("onnx-gs cleanup: error: output 'scores' differs")
