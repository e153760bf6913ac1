"""Sharing where an output of the graph takes the place of an earlier tensor: nobody may go on reading the earlier one."""

from __future__ import annotations

import pytest

import onnx_gs as gs
from onnx_gs.passes.normalize_if import NormalizeIf
from onnx_gs.passes.share_shapes import ShareShapes
from onnx_gs.passes.share_subexpressions import ShareSubexpressions
from onnx_gs.passes.simplify import Simplify
from tests.support.rewrites import assert_equal_outputs, model

OF_THREE = [
    "a = Neg (x)  b = Neg (x)  c = Neg (x)  e = Exp (b)  f = Exp (a)  d = Add (e, f)",
    "a = Neg (x)  b = Neg (x)  e = Exp (b)  c = Neg (x)  f = Tanh (a)  d = Add (e, f)",
    "a = Neg (x)  c = Neg (x)  b = Neg (x)  e = Exp (b)  f = Tanh (a)  d = Add (e, f)",
]


@pytest.mark.parametrize("nodes", OF_THREE)
@pytest.mark.parametrize("rewrite", [ShareSubexpressions(), Simplify()], ids=lambda p: p.name)
def test_one_of_three_equal_nodes_gives_an_output(nodes, rewrite):
    assert assert_equal_outputs(rewrite, f"g (float[3] x) => (float[3] c, float[3] d) {{ {nodes} }}").rewritten


def test_dims_are_gathered_from_the_shape_that_the_graph_returns():
    text = """g (float[3, m] x) => (int64[2] c, int64[4] d) <int64[1] i = {0}, int64[1] j = {1}> {
        s = Shape (x)  first = Gather (s, i)  last = Gather (s, j)
        c = Concat <axis = 0> (first, last)  d = Concat <axis = 0> (last, last, first, last) }"""
    assert assert_equal_outputs(ShareShapes(), text, opset=13).rewritten


def test_branches_that_return_equal_names_of_their_own_stay_apart():
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] w) <float[2] w = {1, 2}> {}, else_branch = e () => (float[2] w) <float[2] w = {3, 4}> {}> }"""
    assert_equal_outputs(NormalizeIf(), text)


def test_overloads_of_a_function_are_different_functions():
    proto = model(
        "g (float[2] x) => (float[2] y) { a = local.F : one (x)  b = local.F : two (x)  y = Sub (a, b) }",
        ir_version=10,
        functions='<opset_import: ["" : 18], domain: "local", overload: "one"> F (q) => (r) { r = Neg (q) }\n'
        '<opset_import: ["" : 18], domain: "local", overload: "two"> F (q) => (r) { r = Exp (q) }',
    )
    graph = gs.import_onnx(proto)
    assert not ShareSubexpressions()(graph).rewritten
