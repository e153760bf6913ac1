"""What scripts rely on: an If whose condition is known becomes the branch that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.ir import verify
from tests.support.rewrites import assert_same, feeds_of, model, run


def flattened(text: str, **options: Any) -> gs.Graph:
    """Fold a model; it stays sound and computes the same in ONNX Runtime."""
    proto = model(text)
    graph = gs.import_onnx(proto).fold_constants(**options)
    assert not verify.problems(graph)
    graph.cleanup()
    after = gs.export_onnx(graph)
    onnx.checker.check_model(after, full_check=True)
    assert [v.name for v in after.graph.output] == [v.name for v in proto.graph.output]
    for feeds in feeds_of(proto, {}):
        assert_same(run(proto, feeds), run(after, feeds))
    return graph


def ops(graph: gs.Graph) -> list[str]:
    return [node.op for node in graph.nodes]


BRANCHES = """then_branch = t () => (float[2] p) {{ {then} }}, else_branch = e () => (float[2] q) {{ q = Abs (x) }}"""


def taking(then: str, before: str = "", after: str = "", cond: str = "bool c = {1}", outputs: str = "float[2] y", weights: str = "") -> str:
    branches = BRANCHES.format(then=then)
    return f"g (float[2] x) => ({outputs}) <{cond}{weights}> {{ {before} y = If (c) <{branches}> {after} }}"


@pytest.mark.parametrize("cond", ["bool c = {1}", "bool[1] c = {1}", "bool[1, 1] c = {1}"])
def test_the_nodes_of_the_taken_branch_replace_the_if(cond: str) -> None:
    graph = flattened(taking("h = Neg (x) p = Exp (h)", "a = Relu (x)", "z = Add (y, a)", cond, "float[2] z"))
    assert ops(graph) == ["Relu", "Neg", "Exp", "Add"]
    assert ops(flattened(taking("p = Neg (x)", cond="bool c = {0}"))) == ["Abs"]


def test_the_node_objects_move() -> None:
    graph = gs.import_onnx(model(taking("h = Neg (x) p = Exp (h)")))
    inner = graph.nodes[0].attrs["then_branch"].nodes
    graph.fold_constants().cleanup()
    assert all(a is b for a, b in zip(graph.nodes, inner))


def test_local_names_say_which_if_and_branch_they_come_from() -> None:
    graph = flattened(taking("h = Neg (x) p = Exp (h)", "a = Relu (x)", "z = Add (y, a)", outputs="float[2] z"))
    assert [n.outputs[0].name for n in graph.nodes] == ["a", "h_subg_1_t", "y", "z"]


def test_later_ifs_are_counted_after_earlier_ones_are_taken_apart() -> None:
    text = """g (float[2] x) => (float[2] z) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] p) { h = Neg (x) i = Exp (h) p = Neg (i) }, else_branch = e () => (float[2] q) { q = Abs (x) }>
        z = If (c) <then_branch = t2 () => (float[2] p) { h = Neg (y) p = Exp (h) }, else_branch = e2 () => (float[2] q) { q = Abs (x) }> }"""
    assert [n.outputs[0].name for n in flattened(text).nodes] == ["h_subg_0_t", "i_subg_0_t", "y", "h_subg_3_t2", "z"]


def test_a_condition_that_is_folded_just_now_will_do() -> None:
    text = taking("p = Neg (x)", "c = Not (b)", cond="bool b = {0}")
    assert ops(flattened(text)) == ["Neg"]


def test_the_if_stays_where_it_is_asked_to() -> None:
    graph = flattened(taking("p = Neg (x)"), flatten_subgraphs=False)
    assert ops(graph) == ["If"]


def test_nested_ifs_are_taken_apart() -> None:
    inner = "p = If (c) <then_branch = tt () => (float[2] p2) { p2 = Neg (x) }, else_branch = ee () => (float[2] q2) { q2 = Exp (x) }>"
    assert ops(flattened(taking(inner))) == ["Neg"]


@pytest.mark.parametrize("then", ["p = Constant <value = float[2] {3, 4}> ()", "k = Constant <value = float[2] {3, 4}> () p = Neg (k)"])
@pytest.mark.parametrize("after", ["", "z = Add (y, x)"])
def test_a_branch_that_returns_a_constant(then: str, after: str) -> None:
    flattened(taking(then, after=after, outputs="float[2] z" if after else "float[2] y"))


@pytest.mark.parametrize("after", ["", "z = Add (y, x)"])
def test_a_branch_that_returns_a_weight(after: str) -> None:
    text = f"""g (float[2] x) => (float[2] {"z" if after else "y"}) <bool c = {{1}}> {{
        y = If (c) <then_branch = t () => (float[2] p) <float[2] p = {{3, 4}}> {{ }}, else_branch = e () => (float[2] q) {{ q = Abs (x) }}> {after} }}"""
    flattened(text)


def test_a_branch_that_returns_one_tensor_twice() -> None:
    graph = gs.import_onnx(model(taking("p = Neg (x)", outputs="float[2] y")))
    node = graph.nodes[0]
    for branch in node.subgraphs():
        branch.outputs.append(branch.outputs[0])
    z = gs.Variable("z", np.float32, (2,))
    node.outputs.append(z)
    graph.outputs.append(z)
    graph.fold_constants().cleanup()
    after = gs.export_onnx(graph)
    assert [o.name for o in after.graph.output] == ["y", "z"]
    first, second = run(after, {"x": np.array([1, -2], np.float32)})
    assert first.tolist() == second.tolist() == [-1, 2]


def test_a_returned_tensor_that_the_branch_reads_keeps_its_readers() -> None:
    text = """g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> {
        y, z = If (c) <then_branch = t () => (float[2] p, float[2] r) { p = Neg (x) r = Exp (p) },
                       else_branch = e () => (float[2] q, float[2] s) { q = Abs (x) s = Abs (x) }> }"""
    graph = flattened(text)
    assert graph.nodes[1].inputs[0] is graph.outputs[0]


def test_outer_constants_and_outputs_keep_their_names() -> None:
    graph = flattened(taking("h = Add (x, w) p = Mul (h, o)", "o = Relu (x)", outputs="float[2] y, float[2] o", weights=", float[2] w = {1, 2}"))
    assert {"w", "o", "x", "y"} <= set(graph.tensors())


def test_an_outer_tensor_that_a_branch_returns_keeps_its_other_readers() -> None:
    text = """g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> {
        o = Relu (x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Identity (o) }, else_branch = e () => (float[2] q) { q = Abs (x) }>
        z = Exp (o) }"""
    flattened(text)
    graph = gs.import_onnx(model(text))
    branch = graph.nodes[1].attrs["then_branch"]
    branch.outputs = [branch.nodes[0].inputs[0]]
    branch.nodes.clear()
    graph.fold_constants().cleanup()
    x = np.array([1, -2], np.float32)
    assert_same(run(model(text), {"x": x}), run(gs.export_onnx(graph), {"x": x}))


def test_ifs_that_share_a_branch_are_both_taken_apart() -> None:
    proto = model(taking("h = Neg (x) p = Exp (h)", after="z = Identity (y)", outputs="float[2] z"))
    graph = gs.import_onnx(proto)
    first, last = graph.nodes
    twin = gs.Variable("twin", np.float32, (2,))
    second = gs.Node("If", attrs=dict(first.attrs), inputs=list(first.inputs), outputs=[twin])
    graph.nodes.insert(1, second)
    last.op = "Add"
    last.inputs.append(twin)
    graph.fold_constants().cleanup()
    assert ops(graph) == ["Neg", "Exp", "Neg", "Exp", "Add"]
    x = np.array([1, -2], np.float32)
    assert_same([2 * run(proto, {"x": x})[0]], run(gs.export_onnx(graph), {"x": x}))


def test_generated_names_hit_no_existing_ones() -> None:
    before = "h_subg_1_t = Relu (x)"
    graph = flattened(taking("h = Neg (x) p = Exp (h)", before, "z = Add (y, h_subg_1_t)", outputs="float[2] z"))
    names = [t.name for n in graph.nodes for t in n.outputs]
    assert len(set(names)) == len(names) == 4


def test_names_of_the_branchs_nodes_become_unique() -> None:
    graph = gs.import_onnx(model(taking("p = Neg (x)", "a = Relu (x)", "z = Add (y, a)", outputs="float[2] z")))
    graph.nodes[0].name = "same"
    next(graph.subgraphs()).nodes[0].name = "same"
    names = [n.name for n in graph.fold_constants().cleanup().nodes if n.name]
    assert len(set(names)) == len(names)


def test_an_if_that_is_excluded_stays() -> None:
    assert ops(flattened(taking("p = Neg (x)"), should_exclude_node=lambda node: node.op == "If")) == ["If"]


def test_loops_are_not_unrolled() -> None:
    text = """g (float[2] x) => (float[2] y) <int64 n = {2}, bool c = {1}> {
        y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] s) => (bool k2, float[2] s2) { k2 = Identity (k) s2 = Neg (s) }> }"""
    assert ops(flattened(text)) == ["Loop"]
