"""A graph as plain data: everything is there, groups are small, stored values are shown where they are read."""

from __future__ import annotations

import json

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug.diff import diff
from onnx_gs.ir import walk
from onnx_gs.viewer.model import FAN_OUT, Mark, Marks, difference_marks, model_data, node_numbers, type_text, weight_statistics

LOOP = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
g (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1.5, -2.0}> {
  n = Constant<value = int64 {3}>()
  true = Constant<value = bool {1}>()
  a = local.f(x)
  l = Loop(n, true, a) <body = b (int64 i, bool ci, float[N, 2] h) => (bool co, float[N, 2] h2) {
     co = Identity(ci)
     h1 = Mul(h, w)
     h2 = Add(h1, x)
  }>
  y = Softmax<axis = 1>(l)
}
<domain: "local", opset_import: ["" : 18]>
f (p) => (q) { q = Abs(p) }"""


def loop() -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model(LOOP))


def test_everything_is_there() -> None:
    data = model_data(loop(), title="demo")
    json.dumps(data)
    assert [n["o"] for n in data["nodes"]] == ["Constant", "Constant", "f", "Loop", "Softmax", "Identity", "Mul", "Add", "Abs"]
    assert [(g["name"], g["owner"], g["attribute"]) for g in data["graphs"]] == [("g", -1, ""), ("b", 3, "body"), ("f", -1, "")]
    assert data["nodes"][4]["a"] == {"axis": "1"}
    assert data["nodes"][2]["f"] == 2
    by_name = {t[0]: t for t in data["tensors"]}
    assert by_name["x"] == ["x", "float32[N, 2]", 0]
    assert by_name["w"] == ["w", "float32[2]", 1]
    assert data["values"][data["tensors"].index(by_name["w"])] == "[ 1.5, -2. ]"
    assert data["facts"]["opsets"] == "ai.onnx 18, local 1"


def test_a_captured_tensor_is_the_same_tensor_inside() -> None:
    data = model_data(loop())
    x = data["graphs"][0]["inputs"][0]
    assert x in data["nodes"][7]["i"]


def test_stored_values_are_shown_where_they_are_read() -> None:
    data = model_data(loop())
    assert [n["o"] for n in data["nodes"] if n.get("q")] == ["Constant", "Constant"]
    n = data["nodes"][3]["i"][0]
    assert data["tensors"][n][2] == 2
    assert data["values"][n].endswith("3")


@pytest.mark.parametrize("count", [5, 61, 5000])
def test_no_group_has_many_members(count: int) -> None:
    graph = chain(count)
    found = model_data(graph)["graphs"][0]
    sizes: dict[int, int] = {}
    for _, _, parent in found["groups"]:
        sizes[parent] = sizes.get(parent, 0) + 1
    for node in model_data(graph)["nodes"]:
        sizes[node["s"]] = sizes.get(node["s"], 0) + 1
    assert max(sizes.values()) <= FAN_OUT
    assert all(parent < at for at, (_, _, parent) in enumerate(found["groups"]))


def chain(count: int) -> gs.Graph:
    x = gs.Variable("x", np.float32, (2,))
    graph, t = gs.Graph(inputs=[x], opset=18), x
    for i in range(count):
        new = gs.Variable(f"t{i}", np.float32, (2,))
        graph.nodes.append(gs.Node("Neg", f"n{i}", inputs=[t], outputs=[new]))
        t = new
    graph.outputs = [t]
    return graph


def test_scopes_come_from_names_and_from_metadata() -> None:
    graph = chain(4)
    for node, name in zip(graph.nodes, ["/enc/layer.0/a", "/enc/layer.0/b", "/enc/layer.1/a", "/enc/layer.1/b"]):
        node.name = name
    assert [label for label, _, _ in model_data(graph)["graphs"][0]["groups"]] == ["layer.0", "layer.1"]
    named = chain(4)
    for k, node in enumerate(named.nodes):
        node.metadata_props["namespace"] = f": Net/block.{k // 2}: Block/add_{k}: aten.add"
    assert [label for label, _, _ in model_data(named)["graphs"][0]["groups"]] == ["block.0", "block.1"]


def test_statistics_of_a_weight() -> None:
    values = np.float32([0, 1, 2, 3, np.nan, np.inf])
    found = weight_statistics(gs.Constant("w", values))
    assert found is not None
    assert (found["min"], found["max"], found["mean"], found["zeros"], found["NaN"], found["infinite"]) == (0, 3, 1.5, 1, 1, 1)
    assert found["std"] == pytest.approx(np.std([0, 1, 2, 3]))
    assert sum(found["histogram"]) == 4
    assert weight_statistics(gs.Constant("s", np.array(["a"], object))) is None
    assert model_data(loop(), weights=True)["statistics"]
    assert not model_data(loop())["statistics"]


def test_differences_are_marked_on_both_sides() -> None:
    before, after = loop(), loop()
    body = next(g for g in walk.graphs(after) if g.name == "b")
    body.nodes[1].op = "Sub"
    found = diff(before, after)
    ours, theirs = Marks(), Marks()
    difference_marks(found.changes, ours, theirs)
    node = next(g for g in walk.graphs(before) if g.name == "b").nodes[1]
    assert ours.nodes[id(node)] == [Mark("changed", "node: operator Mul -> Sub")]
    assert theirs.nodes[id(body.nodes[1])] == [Mark("changed", "node: operator Mul -> Sub")]
    assert len(found.pairs) == len(node_numbers(before)) == len(node_numbers(after))


def test_types_are_spelled() -> None:
    assert type_text(gs.Variable("x")) == ""
    assert type_text(gs.Variable("x", np.float32, ("N", None, 3))) == "float32[N, ?, 3]"
    assert type_text(gs.Variable("x", np.int64)) == "int64[…]"
