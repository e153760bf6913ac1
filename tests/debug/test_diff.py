"""Differences: none under new names and another order; planted ones are found, and nothing else."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug.diff import diff
from onnx_gs.ir import walk

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[4, 2] x, bool c) => (float[4, 2] y, float[4, 2] z) <float[2] w = {1.0, 2.0}, float[2] v = {3.0, 4.0}> {
  one = Constant<value = float {1.0}>()
  two = Constant<value = float {1.0}>()
  [p] a = Mul(x, w)
  [q] b = Add(a, one)
  [r] d = Add(a, two)
  [s] f = Mul(b, d)
  [t] g1 = Softmax<axis = 1>(f)
  [u] y = If(c) <then_branch = th () => (float[4, 2] m) { k = Neg(g1) m = Mul(k, v) }, else_branch = el () => (float[4, 2] n) { n = Exp(g1) }>
  [o] z = Relu(f)
}"""


def model() -> gs.Graph:
    graph = gs.import_onnx(onnx.parser.parse_model(TEXT))
    for name, node in zip(["one", "two", *"pqrstuo"], graph.nodes):
        node.name = name
    return graph


def disguised(graph: gs.Graph, seed: int) -> gs.Graph:
    public = {id(t) for t in (*graph.inputs, *graph.outputs)}
    count = 0
    for g in walk.graphs(graph):
        for t in list(walk.tensors(g)):
            if id(t) not in public:
                t.name, count = f"r{count}", count + 1
        for node in g.nodes:
            node.name, count = f"n{count}", count + 1
    random.Random(seed).shuffle(graph.nodes)
    return graph.toposort()


@pytest.mark.parametrize("seed", range(4))
def test_new_names_and_another_order_are_no_difference(seed: int) -> None:
    assert str(diff(model(), disguised(model(), seed))) == "no differences"


def by_name(graph: gs.Graph, name: str) -> gs.Node:
    return next(n for n in graph.nodes if n.name == name)


def set_axis(graph: gs.Graph) -> None:
    by_name(graph, "t").attrs["axis"] = 0


def set_weight(graph: gs.Graph) -> None:
    by_name(graph, "p").inputs[1].values = np.float32([1, 2.5])


def set_weight_in_body(graph: gs.Graph) -> None:
    by_name(graph, "u").attrs["then_branch"].nodes[1].inputs[1].values = np.float32([9, 9])


def set_operator(graph: gs.Graph) -> None:
    by_name(graph, "o").op = "Sigmoid"


def set_operator_in_body(graph: gs.Graph) -> None:
    by_name(graph, "u").attrs["else_branch"].nodes[0].op = "Sqrt"


def rewire(graph: gs.Graph) -> None:
    by_name(graph, "o").inputs[0] = by_name(graph, "t").outputs[0]


def insert(graph: gs.Graph) -> None:
    node = by_name(graph, "o")
    new = gs.Variable("new", np.float32, (4, 2))
    graph.nodes.insert(8, gs.Node("Abs", "inserted", inputs=[node.inputs[0]], outputs=[new]))
    node.inputs[0] = new


def set_opset(graph: gs.Graph) -> None:
    graph.opset = 19


def set_metadata(graph: gs.Graph) -> None:
    by_name(graph, "s").metadata_props["scope"] = "there"


def set_type(graph: gs.Graph) -> None:
    graph.inputs[0].shape = [8, 2]


PLANTED = [
    (set_axis, [("changed", "attribute", "axis", "1 -> 0")]),
    (set_weight, [("changed", "weight", "'w'", "1 of 2 elements differ, by at most 0.5")]),
    (set_weight_in_body, [("changed", "weight", "then_branch", "2 of 2 elements differ")]),
    (set_operator, [("changed", "node", "'o'", "operator Relu -> Sigmoid")]),
    (set_operator_in_body, [("changed", "node", "else_branch", "operator Exp -> Sqrt")]),
    (rewire, [("changed", "input", "'o'", "input 0")]),
    (insert, [("added", "node", "'inserted'", "")]),
    (set_opset, [("changed", "opset", "''", "18 -> 19")]),
    (set_metadata, [("added", "metadata", "'scope'", "there")]),
    (set_type, [("changed", "type", "'x'", "FLOAT[4, 2] -> FLOAT[8, 2]")]),
]


@pytest.mark.parametrize(("plant", "expected"), PLANTED)
def test_planted_changes_are_found_and_nothing_else(plant: Any, expected: list[tuple[str, ...]]) -> None:
    changed = model()
    plant(changed)
    found = diff(model(), changed).changes
    assert len(found) == len(expected), found
    for change, (kind, what, path, detail) in zip(found, expected):
        assert (change.kind, change.what) == (kind, what)
        assert path in change.path
        assert detail in change.detail


def test_a_removed_node_is_the_reverse_of_an_added_one() -> None:
    changed = model()
    insert(changed)
    found = diff(changed, model()).changes
    assert next((c.kind, c.what) for c in found) == ("removed", "node")


def test_a_tolerance_covers_small_differences_of_weights() -> None:
    changed = model()
    by_name(changed, "p").inputs[1].values = np.float32([1, 2.0001])
    assert diff(model(), changed)
    assert not diff(model(), changed, tolerance=1e-3)


def test_as_data_and_as_a_page() -> None:
    changed = model()
    set_axis(changed)
    found = diff(model(), changed)
    assert found.as_dict()["changes"][0]["detail"] == "1 -> 0"
    assert "<table>" in found.as_html()
    assert "no differences" in diff(model(), model()).as_html()
