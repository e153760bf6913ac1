"""What TensorRT refuses of control flow builds once it is lowered: one model a kind, really built, and equal in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.errors import OnnxGsError
from onnx_gs.passes.lower_control_flow import LowerControlFlow
from onnx_gs.trt.builder import build
from onnx_gs.trt.recipe import prepare
from tests.support.rewrites import assert_same, model, run

pytest.importorskip("tensorrt_rtx")

X = np.float32([[1.5, -2]])
REFUSED = {
    "ranks that differ, for a reader that broadcasts": (
        """g (float[2,3] x, bool c) => (float[2,3] y) <float z = {0}> {
            v = If (c) <then_branch = a () => (float t) { t = Identity (z) }, else_branch = b () => (float[2,3] f) { f = MatMul (x, w) }>
            y = Add (v, x) }""".replace("<float z = {0}>", "<float z = {0}, float[3,3] w = {1,2,3,4,5,6,7,8,9}>"),
        [{"x": np.ones((2, 3), np.float32), "c": np.array(c)} for c in (True, False)],
        {},
    ),
    "a value that grows": (
        """g (float[1,2] x) => (float[N,2] y) <int64 m = {3}, bool c = {1}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[K,2] s) => (bool co, float[L,2] so) {
                co = Identity (ci)  so = Concat <axis = 0> (s, x) }> }""",
        [{"x": X}],
        {},
    ),
    "a value that grows and is read, for any trip count": (
        """g (float[N,2] q, float[1,2] x) => (float[K,2] y) <bool c = {1}, int64 z = {0}, int64[1] a0 = {0}> {
            sh = Shape (q)  m = Gather (sh, z)
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[K,2] s) => (bool co, float[L,2] so) {
                co = Identity (ci)  p = Gather (s, i)  r = Gather (q, i)  t = Add (p, r)  u = Unsqueeze (t, a0)  so = Concat <axis = 0> (s, u) }> }""",
        [{"q": np.full((n, 2), 0.5, np.float32), "x": X} for n in (1, 4)],
        {},
    ),
    "slices by the iteration number": (
        """g (float[6,2] x) => (float[2] y) <int64 m = {3}, bool c = {1}, float[2] init = {0,0}, int64[1] one = {1}, int64[1] ax = {0}> {
            y = Loop (m, c, init) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                co = Identity (ci)  i1 = Unsqueeze (i, ax)  j1 = Add (i1, one)  r = Slice (x, i1, j1, ax)  q = Squeeze (r, ax)  so = Add (s, q) }> }""",
        [{"x": np.arange(12, dtype=np.float32).reshape(6, 2)}],
        {"unroll": False},
    ),
    "the iteration number of a while loop": (
        """g (float[2] x) => (float[2] y) <bool c = {1}, float k = {100}> {
            y = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                f = Cast <to = 1> (i)  so = Add (s, f)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        [{"x": X[0]}],
        {},
    ),
    "no condition given, and passed on": (
        """g (float[2] x, int64 m) => (float[2] y) {
            y = Loop (m, "", x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity (ci)  so = Add (s, s) }> }""",
        [{"x": X[0], "m": np.array(n)} for n in (0, 1, 4)],
        {},
    ),
    "a while loop with a scan output and a bound": (
        """g (float[2] x) => (float[2] y, float[K,2] z) <bool c = {1}, float k = {20}> {
            y, z = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] o) {
                so = Add (s, s)  o = Identity (so)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        [{"x": np.float32(v)} for v in ([1, 2], [30, 1])],
        {"max_trips": 8},
    ),
    "a scan without state": (
        """g (float[T,2] p, float[T,2] q) => (float[T,2] z) {
            z = Scan (p, q) <num_scan_inputs = 2, body = b (float[2] a, float[2] c) => (float[2] o) { o = Mul (a, c) }> }""",
        [{"p": np.ones((n, 2), "f"), "q": np.full((n, 2), 3, "f")} for n in (1, 3)],
        {},
    ),
    "negative axes": (
        """g (float[2] x, float[2,T] q) => (float[2] y, float[2,T] z) {
            y, z = Scan (x, q) <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
                body = b (float[2] s, float[2] r) => (float[2] so, float[2] o) { so = Add (s, r)  o = Neg (so) }> }""",
        [{"x": X[0], "q": np.ones((2, 3), np.float32)}],
        {},
    ),
}  # fmt: skip


def test_a_slice_that_data_chooses_builds_once_prepared():
    source = model("""g (float[4,3] x) => (float[N,3] y) <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, float limit = {0}> {
        r = ReduceSum <keepdims = 0> (x)  c = Greater (r, limit)  n = Where (c, two, four)  y = Slice (x, zero, n, zero) }""")
    with pytest.raises(OnnxGsError):
        engine(gs.import_onnx(source))
    graph = gs.import_onnx(source)
    prepare(graph)
    for v in (1, -1):
        each = {"x": np.full((4, 3), v, np.float32)}
        assert_same(run(source, each), run(gs.export_onnx(graph), each))
    assert engine(graph).size


def engine(graph: gs.Graph) -> object:
    dynamic = [t for t in graph.inputs if any(isinstance(d, str) for d in t.shape)]
    ranges = {t.name: [tuple(n if isinstance(d, str) else d for d in t.shape) for n in (1, 4, 8)] for t in dynamic}
    return build(graph, **({"shapes": ranges} if ranges else {}))


@pytest.mark.parametrize("kind", REFUSED)
def test_it_builds_once_lowered(kind):
    text, feeds, options = REFUSED[kind]
    source = model(text)
    with pytest.raises(OnnxGsError):
        engine(gs.import_onnx(source))
    graph = gs.import_onnx(source)
    LowerControlFlow(**options)(graph)
    for each in feeds:
        assert_same(run(source, each), run(gs.export_onnx(graph), each))
    assert engine(graph).size
