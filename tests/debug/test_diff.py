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


NODES = """<ir_version: 9, opset_import: ["" : 18]>
g (float[2] x, bool c) => (float[2] y, float[2] z) {
  one = Constant<value = float {1.0}>()
  two = Constant<value_float = 2.0>()
  axes = Constant<value_ints = [0]>()
  a = Add(x, one)
  b = Mul(a, two)
  d = Unsqueeze(b, axes)
  e = Squeeze(d, axes)
  y = If(c) <then_branch = th () => (float[2] m) { k = Constant<value_float = 3.0>() m = Mul(e, k) }, else_branch = el () => (float[2] n) { n = Sub(e, two) }>
  z = Identity(two)
}"""


def with_initializers() -> gs.Graph:
    from onnx_gs.passes.base import Report
    from onnx_gs.passes.lower_constants import LowerConstants

    graph = gs.import_onnx(onnx.parser.parse_model(NODES))
    LowerConstants().apply(graph, Report(graph))
    assert not [n for _, n in walk.nodes(graph, op="Constant")]
    return graph


def test_constant_nodes_are_the_initializers_that_they_could_be() -> None:
    nodes = gs.import_onnx(onnx.parser.parse_model(NODES))
    for before, after in ((nodes, with_initializers()), (with_initializers(), nodes)):
        found = diff(before, after)
        assert not found
        assert found.stored_otherwise == 4
        assert str(found) == "no differences\n(4 constants are Constant nodes in one model and initializers in the other, with the same values)"
        assert "4 constants" in found.as_html()
        assert found.as_dict()["stored_otherwise"] == 4
        told = diff(before, after, constants=True)
        assert [(c.kind, c.what) for c in told.changes if c.what == "node"] == [("removed" if before is nodes else "added", "node")] * 4
    assert str(diff(nodes, gs.import_onnx(onnx.parser.parse_model(NODES)))) == "no differences"


@pytest.mark.parametrize("stored", ["nodes", "initializers"])
def test_another_value_is_told_once_however_it_is_stored(stored: str) -> None:
    changed = NODES.replace("<value_float = 2.0>", "<value_float = 2.5>")
    after = gs.import_onnx(onnx.parser.parse_model(changed))
    before = gs.import_onnx(onnx.parser.parse_model(NODES)) if stored == "nodes" else with_initializers()
    found = diff(before, after)
    about = [c for c in found.changes if "two" in c.path or "2.5" in c.detail or "elements differ" in c.detail]
    assert about == found.changes
    assert len({c.path for c in found.changes}) == len(found.changes)
    assert found.stored_otherwise == (0 if stored == "nodes" else 4)


def test_other_attributes_with_the_same_value_are_no_difference() -> None:
    other = NODES.replace("<value_float = 2.0>", "<value = float {2.0}>").replace("<value_ints = [0]>", "<value = int64[1] {0}>")
    assert str(diff(gs.import_onnx(onnx.parser.parse_model(NODES)), gs.import_onnx(onnx.parser.parse_model(other)))) == "no differences"


def test_a_constant_node_that_nothing_reads_is_a_node() -> None:
    before, after = (gs.import_onnx(onnx.parser.parse_model(NODES)) for _ in range(2))
    after.nodes.append(gs.Node("Constant", attrs={"value_float": 7.0}, outputs=[gs.Variable("idle")]))
    assert [(c.kind, c.what) for c in diff(before, after).changes] == [("added", "node")]
    after.nodes.pop()
    after.nodes.insert(0, gs.Node("Constant", attrs={"value_float": 7.0}, outputs=[gs.Variable("seven")]))
    by_op = {n.op: n for n in after.nodes}
    by_op["Mul"].inputs[1] = after.nodes[0].outputs[0]
    assert [(c.kind, c.what, c.detail) for c in diff(before, after).changes] == [("changed", "weight", "1 of 1 elements differ, by at most 5")]
