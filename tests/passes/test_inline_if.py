"""Ifs with a known condition: the taken branch in their place, under the right names, with the right links."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.evaluate.verify import verify
from onnx_gs.ir import verify as soundness
from onnx_gs.passes.inline_if import InlineIf
from tests.support.rewrites import assert_declines, assert_rewrites, parse


def check(graph, **options):
    """Fold a copy and compare."""
    after = graph.copy().fold_constants(**options).cleanup()
    assert not soundness.problems(after), soundness.problems(after)
    assert verify(graph, after).same
    onnx.checker.check_model(gs.export_onnx(after))
    return after


def test_taken_branch_replaces_the_if():
    assert_rewrites(
        InlineIf(),
        """g (float[3] x) => (float[3] y) <bool cond = {1}> {
            y = If (cond) <then_branch = t () => (float[3] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Abs (x) }> }""",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
    )


def test_a_condition_of_one_element_will_do():
    assert_rewrites(
        InlineIf(),
        """g (float[3] x) => (float[3] y) <bool[1] cond = {0}> {
            y = If (cond) <then_branch = t () => (float[3] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Abs (x) }> }""",
        "g (float[3] x) => (float[3] y) { y = Abs (x) }",
    )


def test_a_computed_condition_is_declined():
    assert_declines(
        InlineIf(),
        """g (float[3] x, bool cond) => (float[3] y) {
            y = If (cond) <then_branch = t () => (float[3] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Abs (x) }> }""",
        "run time",
    )


def test_names_say_where_the_nodes_come_from():
    graph = parse("""g (float[2] x) => (float[2] z) <bool c = {1}> {
        h = Neg (x)
        y = If (c) <then_branch = taken () => (float[2] p) <float[2] w = {1, 2}> { i = Mul (h, w) p = Exp (i) },
                    else_branch = e () => (float[2] q) { q = Abs (x) }>
        z = Neg (y) }""")
    graph.fold_constants()
    assert [n.op for n in graph.nodes] == ["Neg", "Mul", "Exp", "Neg"]
    assert [t.name for t in graph.nodes[1].inputs] == ["h", "w_subg_1_taken"]
    assert graph.nodes[1].outputs[0].name == "i_subg_1_taken"
    assert graph.nodes[2].outputs[0].name == "y"


def test_later_ifs_count_the_nodes_spliced_before():
    graph = parse("""g (float[2] x) => (float[2] z) <bool c = {1}> {
        y = If (c) <then_branch = a () => (float[2] p) { i = Neg (x) j = Exp (i) p = Neg (j) }, else_branch = e () => (float[2] q) { q = Abs (x) }>
        z = If (c) <then_branch = b () => (float[2] r) { k = Neg (y) r = Exp (k) }, else_branch = f () => (float[2] s) { s = Abs (y) }> }""")
    graph.fold_constants()
    assert [t.name for n in graph.nodes for t in n.outputs] == ["i_subg_0_a", "j_subg_0_a", "y", "k_subg_3_b", "z"]


def test_names_that_exist_are_not_hit():
    graph = parse("""g (float[2] x) => (float[2] y, float[2] i_subg_0_t) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] p) { i = Neg (x) p = Exp (i) }, else_branch = e () => (float[2] q) { q = Abs (x) }>
        i_subg_0_t = Abs (x) }""")
    after = check(graph)
    assert len({t.name for n in after.nodes for t in n.outputs}) == 3


CASES = {
    "a constant": "w = Constant <value_floats = [1.0, 2.0]> () p = Identity (w)",
    "an outer value": "p = Identity (x)",
}


@pytest.mark.parametrize("then", [
    "t () => (float[2] p) { p = Constant <value_floats = [1.0, 2.0]> () }",
    "t () => (float[2] p) <float[2] p = {1, 2}> { }",
    "t () => (float[2] h) { }",
    "t () => (float[2] a) { }",
    "t () => (float[2] p) { p = Neg (h) r = Exp (p) }",
])  # fmt: skip
@pytest.mark.parametrize("returned", [True, False])
def test_what_a_branch_may_return(then, returned):
    last = "z = Neg (y)" if not returned else "z = Identity (h)"
    text = f"""g (float[2] x) => (float[2] z{', float[2] y' if returned else ''}, float[2] other) <bool c = {{1}}, float[2] a = {{3, 4}}> {{
        h = Exp (x)
        y = If (c) <then_branch = {then}, else_branch = e () => (float[2] q) {{ q = Abs (x) }}>
        {last} other = Mul (h, a) }}"""
    graph = parse(text)
    after = graph.copy().fold_constants().cleanup()
    assert not soundness.problems(after), soundness.problems(after)
    assert [t.name for t in after.outputs] == [t.name for t in graph.outputs]
    assert "If" not in [n.op for n in after.nodes]
    expected = {"x": np.float32([0.5, -1])}
    from onnx_gs.evaluate.onnxruntime import run

    h = np.exp(expected["x"])
    y = {"t () => (float[2] h) { }": h, "t () => (float[2] a) { }": np.float32([3, 4])}.get(then, -h if "Neg" in then else np.float32([1, 2]))
    found = run(after, expected)
    np.testing.assert_allclose(found["y"] if returned else -found["z"], y, rtol=1e-6)
    np.testing.assert_allclose(found["other"], h * np.float32([3, 4]), rtol=1e-6)


def test_one_tensor_returned_twice():
    graph = parse("""g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> {
        y, z = If (c) <then_branch = t () => (float[2] p, float[2] p2) { p = Neg (x) p2 = Identity (p) },
                       else_branch = e () => (float[2] q, float[2] r) { q = Abs (x) r = Exp (x) }> }""")
    branch = graph.nodes[0].attrs["then_branch"]
    branch.outputs = [branch.outputs[0], branch.outputs[0]]
    branch.nodes.pop()
    graph.fold_constants().cleanup()
    assert not soundness.problems(graph)
    from onnx_gs.evaluate.onnxruntime import run

    assert {k: v.tolist() for k, v in run(graph, {"x": np.float32([1, 2])}).items()} == {"y": [-1, -2], "z": [-1, -2]}


def test_two_ifs_that_share_a_branch_object():
    graph = parse("""g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] p) { h = Neg (x) p = Exp (h) }, else_branch = e () => (float[2] q) { q = Abs (x) }>
        z = If (c) <then_branch = t2 () => (float[2] p2) { p2 = Neg (x) }, else_branch = e2 () => (float[2] q2) { q2 = Abs (x) }> }""")
    for inner in graph.nodes[1].attrs["then_branch"].nodes:
        inner.inputs.clear()
    graph.nodes[1].attrs["then_branch"] = graph.nodes[0].attrs["then_branch"]
    graph.fold_constants().cleanup()
    assert not soundness.problems(graph)
    assert [n.op for n in graph.nodes] == ["Neg", "Exp", "Neg", "Exp"]


def test_outer_constants_and_graph_outputs_keep_their_names():
    graph = parse("""g (float[2] x) => (float[2] y, float[2] a) <bool c = {1}, float[2] b = {1, 2}> {
        a = Exp (b)
        y = If (c) <then_branch = t () => (float[2] p) { p = Mul (x, b) }, else_branch = e () => (float[2] q) { q = Abs (x) }> }""")
    after = check(graph)
    assert [t.name for t in after.outputs] == ["y", "a"]
    assert after.nodes[0].inputs[1].name == "b"


def test_nested_ifs_are_taken_apart_to_the_last():
    text = "h = Neg (x) p{0} = Exp (h)"
    inner = "float[2] p0"
    body = "p0 = Neg (x)"
    for k in range(1, 12):
        body = f"""p{k} = If (c) <then_branch = t{k} () => ({inner.replace('p0', f'p{k - 1}')}) {{ {body} }},
                             else_branch = e{k} () => (float[2] q{k}) {{ q{k} = Abs (x) }}>"""
    del text
    graph = parse(f"g (float[2] x) => (float[2] p11) <bool c = {{1}}> {{ {body} }}")
    after = check(graph)
    assert [n.op for n in after.nodes] == ["Neg"]


def test_ifs_inside_loop_bodies_are_taken_apart():
    graph = parse("""g (int64 n, float[2] x) => (float[2] y) <bool c = {1}> {
        y = Loop (n, c, x) <body = b (int64 i, bool d, float[2] v) => (bool d2, float[2] w) {
            d2 = Identity (d)
            w = If (c) <then_branch = t () => (float[2] p) { p = Neg (v) }, else_branch = e () => (float[2] q) { q = Abs (v) }> }> }""")
    after = check(graph)
    assert [n.op for n in after.nodes[0].attrs["body"].nodes] == ["Identity", "Neg"]
