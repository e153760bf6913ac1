"""Cast elision: only where integers are small enough for float32, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.elide_casts import ElideCasts
from onnx_gs.passes.fold_constants import FoldConstants
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites, parse

BEFORE = """g (float[n, 3] x) => (int64[2] y) <float[1] two = {{2}}> {{
    s = Shape (x) f = Cast <to = 1> (s) h = {op} (f, two) y2 = Cast <to = 7> (h) y = Abs (y2) }}"""
AFTER = """g (float[n, 3] x) => (int64[2] y) <int64[1] two = {{2}}> {{ s = Shape (x) h = {op} (s, two) y = Abs (h) }}"""


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min", "Div"])
def test_arithmetic_on_dims_is_done_on_integers(op):
    report = assert_equal_outputs(_Cleaned(), BEFORE.format(op=op), {"x": np.zeros((7, 3), np.float32)})
    assert report.rewritten
    graph = parse(BEFORE.format(op=op)).fold_constants().cleanup()
    assert [n.op for n in graph.nodes] == ["Shape", op, "Abs"]


class _Cleaned(ElideCasts):
    def run(self, graph, report):
        super().run(graph, report)
        graph.cleanup()


@pytest.mark.parametrize(("op", "opset"), [("Equal", 18), ("Greater", 18), ("Less", 18)])
def test_comparisons_read_the_integers_and_stay_bool(op, opset):
    text = f"""g (float[n, 3] x) => (bool[2] y) <float[1] three = {{3}}> {{ s = Shape (x) f = Cast <to = 1> (s) y = {op} (f, three) }}"""
    assert_equal_outputs(_Cleaned(), text, {"x": np.zeros((7, 3), np.float32)}, opset=opset)
    assert [n.op for n in parse(text).fold_constants().cleanup().nodes] == ["Shape", op]


def test_integers_that_may_be_large_are_left():
    assert_declines(ElideCasts(), """g (int64[2] a, int64[2] b) => (int64[2] y) {
        f = Cast <to = 1> (a) g2 = Cast <to = 1> (b) h = Add (f, g2) y2 = Cast <to = 7> (h) y = Abs (y2) }""", "too large")


def test_products_of_dims_may_be_too_large():
    assert_declines(ElideCasts(), """g (float[n, m] x) => (int64[2] y) {
        s = Shape (x) f = Cast <to = 1> (s) h = Mul (f, f) y2 = Cast <to = 7> (h) y = Abs (y2) }""", "too large")


def test_fractions_and_true_floats_are_left():
    assert_declines(ElideCasts(), BEFORE.format(op="Mul").replace("{2}", "{0.5}"), "other than integers")
    assert_declines(ElideCasts(), """g (float[n, 3] x, float[2] t) => (int64[2] y) {
        s = Shape (x) f = Cast <to = 1> (s) h = Add (f, t) y2 = Cast <to = 7> (h) y = Abs (y2) }""", "no cast integer")


def test_only_what_could_be_elided_is_declined_once_and_in_its_place():
    graph = parse("""g (float[n, 3] x, float[2] t, bool c) => (float[2] y, float[2] z, float[2] u) {
        s = Shape (x) f = Cast <to = 1> (s) g2 = Cast <to = 1> (s) v = Max (f, g2, t) y = Neg (v) z = local.Add (f, t)
        u = If (c) <then_branch = a () => (float[2] p) { p = Add (f, t) }, else_branch = b () => (float[2] q) { q = Identity (t) }> }""")
    report = ElideCasts()(graph)
    assert [(entry.op, entry.path.split(" > ")[0]) for entry in report.declined] == [("Max", "graph 'g'")]
    assert "#?" not in report.declined[0].path


def test_division_by_what_may_be_zero_is_left():
    assert_declines(ElideCasts(), BEFORE.format(op="Div").replace("{2}", "{0}"), "too large")


def test_shared_casts_and_constants_stay_for_their_other_readers():
    text = """g (float[n, 3] x) => (int64[2] y, float[2] z) <float[1] two = {2}> {
        s = Shape (x) f = Cast <to = 1> (s) h = Add (f, two) y = Cast <to = 7> (h) g2 = Exp (f) z = Mul (g2, two) }"""
    report = assert_equal_outputs(_Cleaned(), text, {"x": np.zeros((5, 3), np.float32)})
    assert report.rewritten


def test_two_casts_back_keep_their_readers():
    text = """g (float[n, 3] x) => (int64[2] y, int64[2] z) <float[1] two = {2}> {
        s = Shape (x) f = Cast <to = 1> (s) h = Add (f, two) y = Cast <to = 7> (h) z2 = Cast <to = 7> (h) z = Neg (z2) }"""
    assert assert_equal_outputs(_Cleaned(), text, {"x": np.zeros((5, 3), np.float32)}).rewritten
    both = text.replace("z2 = Cast <to = 7> (h) z = Neg (z2)", "z = Cast <to = 7> (h)")
    assert assert_equal_outputs(_Cleaned(), both, {"x": np.zeros((5, 3), np.float32)}).rewritten


def test_a_result_that_is_read_as_float_is_left():
    text = """g (float[n, 3] x) => (int64[2] y, float[2] z) <float[1] two = {2}> {
        s = Shape (x) f = Cast <to = 1> (s) h = Add (f, two) y = Cast <to = 7> (h) z = Exp (h) }"""
    graph = parse(text)
    assert not ElideCasts()(graph).rewritten


def test_concat_of_dims():
    text = """g (float[n, 3] x) => (int64[3] y) <float[1] two = {2}> {
        s = Shape (x) f = Cast <to = 1> (s) h = Concat <axis = 0> (f, two) y2 = Cast <to = 7> (h) y = Abs (y2) }"""
    assert_rewrites(_Cleaned(), text, "g (float[n, 3] x) => (int64[3] y) <int64[1] two = {2}> { s = Shape (x) h = Concat <axis = 0> (s, two) y = Abs (h) }")


def test_folding_reports_elision():
    assert any("without casts" in e.reason for e in FoldConstants()(parse(BEFORE.format(op="Add"))).rewritten)


LOOP = """g (float[2] x) => (int64[1] y, float[2] z) <int64 n = {{{n}}}, bool c = {{1}}, int64[1] zero = {{0}}> {{
    k, z = Loop (n, c, zero, x) <body = b (int64 i, bool d, int64[1] v, float[2] u) => (bool d2, int64[1] w, float[2] u2) {{
        d2 = Identity (d) f = Cast <to = 1> (v) one = Constant <value_float = 1.0> () g2 = Add (f, one) w = Cast <to = 7> (g2) u2 = Neg (u) }}>
    f3 = Cast <to = 1> (k) two = Constant <value_float = 2.0> () g3 = Mul (f3, two) y2 = Cast <to = 7> (g3) y = Neg (y2) }}"""


def test_counters_of_loops_with_a_trip_count_are_bounded():
    assert_equal_outputs(_Cleaned(), LOOP.format(n=5), {"x": np.float32([1, 2])})
    graph = parse(LOOP.format(n=5)).fold_constants().cleanup()
    assert [n.op for n in graph.nodes] == ["Loop", "Mul", "Neg"]
    assert [n.op for n in graph.nodes[0].attrs["body"].nodes] == ["Identity", "Add", "Neg"]


def test_counters_that_may_go_far_are_left():
    graph = parse(LOOP.format(n=1 << 40)).fold_constants().cleanup()
    assert "Cast" in [n.op for n in graph.nodes[0].attrs["body"].nodes]
