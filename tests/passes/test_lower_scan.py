from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.passes.lower_scan import LowerScan
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites, model, parse, run

SUMS = """g (float[2] x, float[T,2] q) => (float[2] y, float[T,2] z) {
    y, z = Scan (x, q) <num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] so, float[2] o) { so = Add (s, r)  o = Neg (so) }> }"""


def test_a_scan_becomes_a_loop_over_rows():
    assert_rewrites(
        LowerScan(),
        SUMS.replace("T", "3"),
        after="""g (float[2] x, float[3,2] q) => (float[2] y, float[3,2] z) <int64 m = {3}> {
            y, z = Loop (m, "", x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] o) <bool co = {1}> {
                r = Gather <axis = 0> (q, i)  so = Add (s, r)  o = Neg (so) }> }""",
    )


@pytest.mark.parametrize("size", [1, 4])
def test_all_axes_and_directions(size):
    rng = np.random.default_rng(size)
    feeds = {"x": rng.standard_normal(2).astype("f"), "q": rng.standard_normal((2, size)).astype("f"), "p": rng.standard_normal((size, 2)).astype("f")}
    for ways in ([0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]):
        text = f"""g (float[2] x, float[2,T] q, float[T,2] p) => (float[2] y, float[2,T] z, float[T,2] u) {{
            y, z, u = Scan (x, q, p) <num_scan_inputs = 2, scan_input_axes = [-1, 0], scan_output_axes = [-1, -2],
                scan_input_directions = [{ways[0]}, {ways[1]}], scan_output_directions = [{ways[2]}, {ways[3]}],
                body = b (float[2] s, float[2] r, float[2] t) => (float[2] so, float[2] o, float[2] e) {{
                    v = Mul (r, t)  so = Sub (s, v)  o = Neg (so)  e = Identity (r) }}> }}"""
        report = assert_equal_outputs(LowerScan(everything=True), text, feeds)
        assert report.rewritten


def test_negative_axes_of_a_scan_that_stays():
    assert_rewrites(
        LowerScan(max_nodes=0),
        before="""g (float[2] x, float[2,T] q) => (float[2] y, float[2,T] z) {
            y, z = Scan (x, q) <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
                body = b (float[2] s, float[2] r) => (float[2] so, float[2] o) { so = Add (s, r)  o = Neg (so) }> }""",
        after="""g (float[2] x, float[2,T] q) => (float[2] y, float[2,T] z) {
            y, z = Scan (x, q) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
                body = b (float[2] s, float[2] r) => (float[2] so, float[2] o) { so = Add (s, r)  o = Neg (so) }> }""",
    )


def test_without_state_it_is_always_a_loop():
    report = assert_equal_outputs(
        LowerScan(),
        """g (float[T,2] p, float[T,2] q) => (float[T,2] z) {
            z = Scan (p, q) <num_scan_inputs = 2, body = b (float[2] a, float[2] c) => (float[2] o) { o = Mul (a, c) }> }""",
        *({"p": np.ones((n, 2), "f"), "q": np.full((n, 2), 3, "f")} for n in (1, 3)),
    )
    assert "no state" in report.rewritten[0].reason


def test_a_batch_is_an_outer_loop():
    text = """g (float[2,2] x, float[2,3,2] q) => (float[2,2] y, float[2,3,2] z) {
        y, z = Scan ("", x, q) <num_scan_inputs = 1, directions = [1], body = b (float[2] s, float[2] r) => (float[2] so, float[2] o) {
            so = Add (s, r)  o = Neg (so) }> }"""
    report = assert_equal_outputs(LowerScan(), text, opset=8)
    assert report.rewritten
    feeds = {"x": np.zeros((2, 2), "f"), "q": np.arange(12, dtype="f").reshape(2, 3, 2)}
    assert run(model(text, 8), feeds)[0].tolist() == [[6, 9], [24, 27]]


def test_near_misses():
    assert_declines(LowerScan(), SUMS, "TensorRT takes it as it is")
    assert_declines(
        LowerScan(),
        """g (int64[1] n, float[1,2] x, float[1,3,2] q) => (float[1,2] y, float[1,3,2] z) {
            y, z = Scan (n, x, q) <num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] so, float[2] o) { so = Add (s, r)  o = Neg (so) }> }""",
        "sequence lengths",
        opset=8,
    )


@pytest.mark.parametrize("rewrite", [LowerScan(), LowerScan(max_nodes=0)])
def test_an_output_that_is_the_input_is_written(rewrite):
    text = """g (float[2] x, float[3,2] q) => (float[2] y, float[3,2] z) {
        y, z = Scan (x, q) <num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] so, float[2] r) { so = Add (s, r) }> }"""
    graph = parse(text)
    assert rewrite(graph).rewritten
    feeds = {"x": np.float32([1, 2]), "q": np.arange(6, dtype=np.float32).reshape(3, 2)}
    assert run(gs.export_onnx(graph), feeds)[1].tolist() == feeds["q"].tolist()  # ONNX Runtime leaves z unwritten in the original
