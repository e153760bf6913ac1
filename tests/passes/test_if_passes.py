from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.equalize_ranks import EqualizeRanks
from onnx_gs.passes.hoist_common import HoistCommon
from onnx_gs.passes.if_to_where import IfToWhere
from onnx_gs.passes.normalize_if import NormalizeIf
from onnx_gs.passes.share_outer import ShareOuter
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

BOTH = [{"x": np.float32([1, -2, 0]), "c": np.array(c)} for c in (True, False)]


def test_an_inner_if_on_the_same_condition_is_decided():
    assert_rewrites(
        NormalizeIf(),
        before="""g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <then_branch = t () => (float[3] a) {
                a = If (c) <then_branch = tt () => (float[3] p) { p = Relu (x) }, else_branch = te () => (float[3] q) { q = Neg (x) }> },
                else_branch = e () => (float[3] b) { b = Exp (x) }> }""",
        after="""g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <then_branch = t () => (float[3] a) <bool yes = {1}> {
                a = If (yes) <then_branch = tt () => (float[3] p) { p = Relu (x) }, else_branch = te () => (float[3] q) { q = Neg (x) }> },
                else_branch = e () => (float[3] b) { b = Exp (x) }> }""",
        more=BOTH,
    )


def test_negations_conjunctions_and_dead_outputs():
    text = """g (float[3] x, bool c, bool d) => (float[3] y) {
        n = Not (c)  both = And (c, d)
        y, u = If (both) <then_branch = t () => (float[3] a, float[3] s) {
            a = If (n) <then_branch = tt () => (float[3] p) { p = Relu (x) }, else_branch = te () => (float[3] q) { q = Neg (x) }>  s = Exp (x) },
            else_branch = e () => (float[3] b, float[3] r) {
            b = If (d) <then_branch = et () => (float[3] v) { v = Abs (x) }, else_branch = ee () => (float[3] w) { w = Exp (x) }>  r = Abs (x) }> }"""
    feeds = [{"x": np.float32([1, -2, 0]), "c": np.array(c), "d": np.array(d)} for c in (True, False) for d in (True, False)]
    report = assert_equal_outputs(NormalizeIf(), text, *feeds)
    assert "1 uses of the condition inside are decided, 1 outputs that nothing reads" in report.rewritten[0].reason  # d is open in the else branch


def test_an_output_that_is_the_same_either_way():
    assert_rewrites(
        NormalizeIf(),
        before="""g (float[3] x, bool c) => (float[3] y, float[3] z) { r = Exp (x)
            u, y = If (c) <then_branch = t () => (float[3] a, float[3] s) { a = Identity (r)  s = Neg (x) },
                          else_branch = e () => (float[3] b, float[3] q) { b = Identity (r)  q = Abs (x) }>
            z = Neg (u) }""",
        after="""g (float[3] x, bool c) => (float[3] y, float[3] z) { r = Exp (x)
            y = If (c) <then_branch = t () => (float[3] s) { s = Neg (x) }, else_branch = e () => (float[3] q) { q = Abs (x) }>
            z = Neg (r) }""",
        more=BOTH,
    )


def test_common_nodes_go_in_front():
    assert_rewrites(
        HoistCommon(),
        before="""g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <then_branch = t () => (float[3] a) <float two = {2}> { p = Exp (x)  q = Mul (p, two)  a = Neg (q) },
                        else_branch = e () => (float[3] b) <float deux = {2}> { r = Exp (x)  s = Mul (r, deux)  b = Abs (s) }> }""",
        after="""g (float[3] x, bool c) => (float[3] y) <float two = {2}> { p = Exp (x)  q = Mul (p, two)
            y = If (c) <then_branch = t () => (float[3] a) { a = Neg (q) }, else_branch = e () => (float[3] b) { b = Abs (q) }> }""",
        more=BOTH,
    )
    assert_declines(
        HoistCommon(),
        """g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <then_branch = t () => (float[3] a) { p = RandomNormalLike (x)  a = Neg (p) },
                        else_branch = e () => (float[3] b) { q = RandomNormalLike (x)  b = Abs (q) }> }""",
        "",
    )


def test_a_common_node_that_is_returned():
    assert_equal_outputs(
        HoistCommon(),
        """g (float[3] x, bool c) => (float[3] y, float[3] z) {
            y, z = If (c) <then_branch = t () => (float[3] a, float[3] p) { a = Exp (x)  p = Neg (a) },
                           else_branch = e () => (float[3] b, float[3] q) { b = Exp (x)  q = Abs (b) }> }""",
        *BOTH,
    )


def test_what_stands_outside_is_shared():
    assert_rewrites(
        ShareOuter(),
        before="""g (float[3] x, bool c) => (float[3] y, float[3] z) { z = Exp (x)
            y = If (c) <then_branch = t () => (float[3] a) { p = Exp (x)  a = Neg (p) }, else_branch = e () => (float[3] b) { b = Abs (x) }> }""",
        after="""g (float[3] x, bool c) => (float[3] y, float[3] z) { z = Exp (x)
            y = If (c) <then_branch = t () => (float[3] a) { a = Neg (z) }, else_branch = e () => (float[3] b) { b = Abs (x) }> }""",
        more=BOTH,
    )
    assert_declines(  # it stands after the If
        ShareOuter(),
        """g (float[3] x, bool c) => (float[3] y, float[3] z) {
            y = If (c) <then_branch = t () => (float[3] a) { p = Exp (x)  a = Neg (p) }, else_branch = e () => (float[3] b) { b = Abs (x) }>
            z = Exp (x) }""",
        "",
    )


def test_cheap_branches_become_a_where():
    assert_rewrites(
        IfToWhere(),
        before="""g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <then_branch = t () => (float[3] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Abs (x) }> }""",
        after="g (float[3] x, bool c) => (float[3] y) { a = Neg (x)  b = Abs (x)  y = Where (c, a, b) }",
        more=BOTH,
    )


def test_bools_scalars_several_outputs_and_conditions_of_shape_one():
    report = assert_equal_outputs(
        IfToWhere(),
        """g (float x, bool[1] c) => (bool y, float z, float w) <float k = {0}> {
            y, z, w = If (c) <then_branch = t () => (bool a, float p, float s) { a = Less (x, k)  p = Neg (x)  s = Identity (x) },
                              else_branch = e () => (bool b, float q, float r) { b = Equal (x, k)  q = Identity (k)  r = Abs (x) }> }""",
        *({"x": np.float32(v), "c": np.array([c])} for v in (-1, 0, np.nan) for c in (True, False)),
    )
    assert report.rewritten


IF = """g (float[3] x, float[N] n, int64 i, int64[3] k, bool c) => (%s y) {
    y = If (c) <then_branch = t () => (%s a) { a = %s }, else_branch = e () => (%s b) { b = %s }> }"""


@pytest.mark.parametrize(
    ("kind", "then", "other", "reason"),
    [
        ("float[M]", "Neg (n)", "Abs (x)", "may differ in shape"),
        ("float[1]", "Neg (x)", "Abs (x)", ""),
        ("float", "Gather (x, i)", "Gather (x, i)", "out of range"),
        ("int64[3]", "Div (k, k)", "Neg (k)", "may divide by zero"),
        ("float[3]", "RandomNormalLike (x)", "Neg (x)", "random"),
        ("float[3]", "CumSum (x, i)", "Neg (x)", "costly"),
        ("int16[3]", "Cast <to = 5> (x)", "Cast <to = 5> (k)", "INT16"),
    ],
)
def test_near_misses_of_where(kind, then, other, reason):
    if reason:
        assert_declines(IfToWhere(), IF % (kind, kind, then, kind, other), reason)


def test_too_many_nodes_for_a_where():
    assert_declines(IfToWhere(max_nodes=1), IF % ("float[3]", "float[3]", "Neg (x)", "float[3]", "Abs (x)"), "2 nodes, more than 1")


def test_ranks_are_equalized_for_readers_that_broadcast():
    assert_rewrites(
        EqualizeRanks(),
        before="""g (float[2,3] x, bool c) => (float[2,3] y) <float z = {0}> {
            v = If (c) <then_branch = t () => (float a) { a = Identity (z) }, else_branch = e () => (float[2,3] b) { b = Relu (x) }>
            y = Add (v, x) }""",
        after="""g (float[2,3] x, bool c) => (float[2,3] y) <float z = {0}> {
            v = If (c) <then_branch = t () => (float[1,1] a) <int64[2] axes = {0, 1}> { s = Identity (z)  a = Unsqueeze (s, axes) },
                        else_branch = e () => (float[2,3] b) { b = Relu (x) }>
            y = Add (v, x) }""",
        more=[{"x": np.ones((2, 3), np.float32), "c": np.array(c)} for c in (True, False)],
    )


@pytest.mark.parametrize("reader", ["ReduceSum <keepdims = 0> (v)", "Size (v)", "Reshape (v, flat)"])
def test_ranks_are_equalized_for_readers_that_do_not_see_shapes(reader):
    kind = {"R": "float", "S": "int64"}[reader[0]] if "Reshape" not in reader else "float[N]"
    report = assert_equal_outputs(
        EqualizeRanks(),
        f"""g (float[1,6] x, bool c) => ({kind} y) <int64[1] ax = {{0}}, int64[1] flat = {{-1}}> {{
            v = If (c) <then_branch = t () => (float[6] a) {{ a = Squeeze (x, ax) }}, else_branch = e () => (float[1,6] b) {{ b = Neg (x) }}>
            y = {reader} }}""",
        *({"x": np.arange(6, dtype=np.float32).reshape(1, 6), "c": np.array(c)} for c in (True, False)),
    )
    assert report.rewritten


@pytest.mark.parametrize(("reader", "reason"), [("Identity (v)", "would see the difference"), ("Add (v, w)", "would see the difference"), ("Shape (v)", "would see")])
def test_near_misses_of_ranks(reader, reason):
    kind = "int64[N]" if "Shape" in reader else "float"
    assert_declines(
        EqualizeRanks(),
        f"""g (float[1,6] x, float[6] w, bool c) => ({kind} y) <int64[1] ax = {{0}}> {{
            v = If (c) <then_branch = t () => (float[6] a) {{ a = Squeeze (x, ax) }}, else_branch = e () => (float[1,6] b) {{ b = Neg (x) }}>
            y = {reader} }}""",
        reason,
    )


@pytest.mark.parametrize(
    ("guard", "then", "reason"),
    [
        ("Equal (n, m)", "a = Add (x, w)", "the operands of 'Add' may not fit"),
        ("Equal (n, one)", "s = Squeeze (q, a0)  a = Neg (s)", "a dim that may not be 1"),
        ("Equal (n, m)", "j = Concat <axis = 1> (q, r)  s = Shape (j)  k = Cast <to = 1> (s)  t = Gather (k, zero)  a = Mul (x, t)", "'Concat' may not fit"),
    ],
)
def test_a_branch_that_its_condition_guards_stays(guard, then, reason):
    text = f"""g (float[N] x, float[M] w, float[N,2] q, float[M,2] r) => (float[N] y) <int64 zero = {{0}}, int64 one = {{1}}, int64[1] a0 = {{0}}> {{
        sx = Shape (x)  n = Gather (sx, zero)  sw = Shape (w)  m = Gather (sw, zero)  c = {guard}
        y = If (c) <then_branch = t () => (float[N] a) {{ {then} }}, else_branch = e () => (float[N] b) {{ b = Neg (x) }}> }}"""
    report = assert_declines(IfToWhere(), text, reason)
    assert len(report.declined) == 1
