"""Bisecting finds exactly the node at fault: at the top, in a body, in a function; with recorded inputs, and again after an interruption."""

from __future__ import annotations

import math
import random
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug.bisect import Case, bisect
from onnx_gs.errors import GraphValueError
from onnx_gs.evaluate import onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.ir import walk

if TYPE_CHECKING:
    from pathlib import Path


def chain(count: int, fault: int) -> gs.Graph:
    x = gs.Variable("x", np.float32, (2,))
    graph, t = gs.Graph(inputs=[x], opset=18), x
    for i in range(count):
        new = gs.Variable(f"t{i}", np.float32, (2,))
        graph.nodes.append(gs.Node("Floor" if i == fault else "Neg", f"n{i}", inputs=[t], outputs=[new]))
        t = new
    graph.outputs = [t]
    return graph


def lacks(op: str) -> object:
    return lambda case: all(node.op != op for _, node in walk.nodes(case.graph, functions=True))


@pytest.mark.parametrize("mode", ["halves", "linear"])
def test_a_planted_node_is_found(mode: str, tmp_path: Path) -> None:
    result = bisect(chain(37, 20), lacks("Floor"), mode=mode, folder=tmp_path)
    assert [n.op for n in result.part.nodes] == ["Floor"]
    assert "node 'n20' (Floor)" in result.nodes[0]


def test_halving_takes_few_runs(tmp_path: Path) -> None:
    count = 1000
    for seed in range(3):
        result = bisect(chain(count, random.Random(seed).randrange(count)), lacks("Floor"), folder=tmp_path / str(seed))
        assert [n.op for n in result.part.nodes] == ["Floor"]
        assert result.runs <= 2 * math.log2(count)


def test_parts_run_on_recorded_inputs(tmp_path: Path) -> None:
    seen = []

    def check(case: Case) -> bool:
        if case.graph.nodes:
            found = onnxruntime.run(case.graph, case.inputs)
            seen.append(all(compare(found[name], value) is None for name, value in case.outputs.items()) and bool(case.outputs))
        return all(node.op != "Floor" for node in case.graph.nodes)

    bisect(chain(20, 7), check, feeds={"x": np.float32([1.5, -2.5])}, folder=tmp_path)
    assert len(seen) > 3
    assert all(seen)
    assert (tmp_path / "part" / "test_data_set_0" / "input_0.pb").exists()


LOOP = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[2] x) => (float[2] y) {
  n = Constant<value = int64 {3}>()
  true = Constant<value = bool {1}>()
  a = Exp(x)
  l = Loop(n, true, a) <body = b (int64 i, bool ci, float[2] h) => (bool co, float[2] h3) {
     co = Identity(ci)
     h1 = Mul(h, x)
     h2 = Floor(h1)
     h3 = Add(h2, h)
  }>
  y = Neg(l)
}"""

FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[2] x) => (float[2] y) {
  a = local.f(x)
  b = local.f(a)
  y = Neg(b)
}
<domain: "local", opset_import: ["" : 18]>
f (p) => (q) { r = Abs(p)  s = Floor(r)  q = Neg(s) }"""


@pytest.mark.parametrize("text", [LOOP, FUNCTION])
def test_bodies_and_functions_are_entered(text: str, tmp_path: Path) -> None:
    graph = gs.import_onnx(onnx.parser.parse_model(text))
    result = bisect(graph, lacks("Floor"), folder=tmp_path)
    assert [n.op for n in result.part.nodes] == ["Floor"]


def test_a_command_is_run_and_its_log_is_resumed(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text("import sys, onnx\nsys.exit(any(n.op_type == 'Floor' for n in onnx.load(sys.argv[1]).graph.node))\n")
    command = f"{sys.executable} {script} {{model}}"
    first = bisect(chain(6, 3), command, folder=tmp_path / "work")
    assert [n.op for n in first.part.nodes] == ["Floor"]
    assert first.runs > 0
    again = bisect(chain(6, 3), command, folder=tmp_path / "work")
    assert again.runs == 0
    assert [n.op for n in again.part.nodes] == ["Floor"]


def test_a_pattern_in_the_output_is_a_failure(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text("import sys, onnx\nprint([n.op_type for n in onnx.load(sys.argv[1]).graph.node])\n")
    result = bisect(chain(6, 3), f"{sys.executable} {script} {{model}}", fail_pattern="Floor", folder=tmp_path / "work")
    assert [n.op for n in result.part.nodes] == ["Floor"]


def test_two_nodes_that_fail_together_are_kept_together(tmp_path: Path) -> None:
    graph = chain(30, 8)
    graph.nodes[15].op = "Ceil"
    both = {"Floor", "Ceil"}
    result = bisect(graph, lambda case: not both <= {n.op for n in case.graph.nodes}, folder=tmp_path)
    assert [n.name for n in result.part.nodes] == [f"n{i}" for i in range(8, 16)]


def test_a_model_that_passes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match="whole model passes"):
        bisect(chain(5, 2), lambda _: True, folder=tmp_path)
    with pytest.raises(GraphValueError, match="mode"):
        bisect(chain(5, 2), lambda _: True, mode="x")


def large(where: str, count: int, fault: int) -> gs.Graph:
    """Give a model of ``count`` nodes with one ``Floor``: at the top, in the body of a loop, or in a function among calls of it."""
    inner = chain(count - 10, fault)
    if where == "top":
        return inner
    x, y = gs.Variable("start", np.float32, (2,)), gs.Variable("end", np.float32, (2,))
    if where == "loop":
        i, go = gs.Variable("i", np.int64, ()), gs.Variable("go", np.bool_, ())
        kept = gs.Variable("kept", np.bool_, ())
        body = gs.Graph([gs.Node("Identity", inputs=[go], outputs=[kept]), *inner.nodes], [i, go, *inner.inputs], [kept, *inner.outputs], opset=18)
        middle = gs.Node("Loop", "loop", attrs={"body": body}, inputs=[gs.Constant("trips", np.array(3)), gs.Constant("true", np.array(True)), x], outputs=[y])
        return _between(x, y, middle, [])
    function = gs.Function("f", domain="local", nodes=inner.nodes, inputs=inner.inputs, outputs=inner.outputs, opset=18)
    return _between(x, y, gs.Node("f", "call", domain="local", inputs=[x], outputs=[y]), [function])


def _between(x: gs.Variable, y: gs.Variable, middle: gs.Node, functions: list[gs.Function]) -> gs.Graph:
    graph = gs.Graph(inputs=[gs.Variable("x", np.float32, (2,))], opset=18, functions=functions)
    t = graph.inputs[0]
    for k in range(4):
        new = x if k == 3 else gs.Variable(f"before{k}", np.float32, (2,))
        graph.nodes.append(gs.Node("Abs", f"before_{k}", inputs=[t], outputs=[new]))
        t = new
    graph.nodes.append(middle)
    t = y
    for k in range(4):
        new = gs.Variable(f"after{k}", np.float32, (2,))
        graph.nodes.append(gs.Node("Abs", f"after_{k}", inputs=[t], outputs=[new]))
        t = new
    graph.outputs = [t]
    return graph


@pytest.mark.parametrize("where", ["top", "loop", "function"])
@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_fault_anywhere_takes_few_runs(where: str, count: int, tmp_path: Path) -> None:
    for seed in range(3 if count > 1000 else 1):
        fault = random.Random(f"{where}{seed}").randrange(count - 10)
        result = bisect(large(where, count, fault), lacks("Floor"), folder=tmp_path / str(seed))
        assert [n.op for n in result.part.nodes] == ["Floor"]
        assert f"n{fault}" in result.nodes[0]
        assert result.runs <= 2 * math.log2(count)


def test_a_fault_of_a_later_trip_is_found(tmp_path: Path) -> None:
    graph = gs.import_onnx(onnx.parser.parse_model(LOOP.replace("Floor(h1)", "Exp(h1)")))

    def check(case: Case) -> bool:
        return all(np.isfinite(v).all() for v in onnxruntime.run(case.graph, case.inputs).values())

    result = bisect(graph, check, feeds={"x": np.float32([1.2, 0.5])}, folder=tmp_path)
    assert [n.op for n in result.part.nodes] == ["Exp"]
    assert "body" in result.nodes[0]


def test_verdicts_of_another_model_check_or_feed_are_not_taken_over(tmp_path: Path) -> None:
    def scaled(factor: float) -> gs.Graph:
        graph = chain(6, -1)
        graph.nodes[3].op = "Mul"
        graph.nodes[3].inputs.append(gs.Constant("w", np.float32([factor])))
        return graph

    def large(case: Case) -> bool:
        return all(float(np.abs(v).max()) < 10 for v in case.outputs.values())

    feeds = {"x": np.float32([1, 1])}
    with pytest.raises(GraphValueError, match="passes"):
        bisect(scaled(2), large, feeds=feeds, folder=tmp_path)
    assert [n.op for n in bisect(scaled(100), large, feeds=feeds, folder=tmp_path).part.nodes] == ["Mul"]
    with pytest.raises(GraphValueError, match="passes"):
        bisect(scaled(100), large, feeds={"x": np.float32([0, 0])}, folder=tmp_path)
    again = bisect(scaled(100), large, feeds=feeds, folder=tmp_path)
    assert [n.op for n in again.part.nodes] == ["Mul"]
    assert bisect(scaled(100), large, feeds=feeds, folder=tmp_path).runs == 0
    command = f"{sys.executable} -c 'print(1)'"
    with pytest.raises(GraphValueError, match="passes"):
        bisect(scaled(2), command, folder=tmp_path)
    assert bisect(scaled(2), command, folder=tmp_path, fail_pattern="1").part.nodes


@pytest.mark.parametrize(("check", "pattern", "what"), [("", None, "is empty"), ("a 'b", None, "split"), ("true", "(", "no regular expression")])
def test_a_check_that_is_none(check: str, pattern: str | None, what: str, tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match=what):
        bisect(chain(2, 1), check, fail_pattern=pattern, folder=tmp_path)


def test_that_the_model_does_not_run_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = chain(20, 7)
    graph.nodes[0].op, graph.nodes[0].domain = "NoSuchOp", ""
    with caplog.at_level("WARNING", "onnx_gs"):
        found = bisect(graph, lambda case: all(n.op != "NoSuchOp" for n in case.graph.nodes), folder=tmp_path)
    assert found.runs > 2
    assert [r.getMessage().partition(",")[0] for r in caplog.records] == ["the whole model does not run"]
