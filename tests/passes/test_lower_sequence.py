from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import onnx_gs as gs
from onnx_gs.ir import walk
from onnx_gs.passes.cleanup import Cleanup
from onnx_gs.passes.lower_sequence import LowerSequence
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites, assert_same, model, run

SEQUENCE_OPS = {
    "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
    "ConcatFromSequence",
}  # fmt: skip


def assert_gone(text, *feeds, opset=18):
    """Check that no sequence is left, and that outputs are equal."""
    source = model(text, opset)
    graph = gs.import_onnx(source)
    LowerSequence()(graph)
    Cleanup()(graph)
    left = sorted({n.op for _, n in walk.nodes(graph)} & SEQUENCE_OPS)
    assert not left
    return assert_equal_outputs(LowerSequence(), text, *feeds, opset=opset)


# -- lists of tensors ------------------------------------------------------------------------------


def test_an_element_at_a_known_position_is_the_tensor():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[2] w) => (float[2] y) <int64 i = {1}> {
            s = SequenceConstruct (x, w)  e = SequenceAt (s, i)  y = Neg (e) }""",
        after="g (float[2] x, float[2] w) => (float[2] y) { y = Neg (w) }",
    )


def test_a_negative_position_counts_from_the_end():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[3] w) => (float[2] y) <int64 i = {-2}> {
            s = SequenceConstruct (x, w)  e = SequenceAt (s, i)  y = Neg (e) }""",
        after="g (float[2] x, float[3] w) => (float[2] y) { y = Neg (x) }",
    )


def test_a_join_is_a_concat_in_order_of_insertion():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[2] w) => (float[6] y) <int64 z = {0}, int64 last = {-1}> {
            e = SequenceEmpty <dtype = 1> ()  a = SequenceInsert (e, x)  b = SequenceInsert (a, w, z)  c = SequenceInsert (b, w, last)
            y = ConcatFromSequence <axis = 0> (c) }""",
        after="g (float[2] x, float[2] w) => (float[6] y) { y = Concat <axis = 0> (w, w, x) }",
    )


def test_a_join_along_a_new_axis_unsqueezes():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[2] w) => (float[2,2] y) {
            s = SequenceConstruct (x, w)  y = ConcatFromSequence <axis = -1, new_axis = 1> (s) }""",
        after="""g (float[2] x, float[2] w) => (float[2,2] y) <int64[1] a = {-1}, int64[1] b = {-1}> {
            p = Unsqueeze (x, a)  q = Unsqueeze (w, b)  y = Concat <axis = -1> (p, q) }""",
    )


def test_erasing_and_length():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[2] w) => (float[2] y, int64 n) <int64 z = {0}> {
            s = SequenceConstruct (x, w, w)  t = SequenceErase (s, z)  u = SequenceErase (t)
            y = ConcatFromSequence <axis = 0> (u)  n = SequenceLength (t) }""",
        after="g (float[2] x, float[2] w) => (float[2] y, int64 n) <int64 n = {2}> { y = Identity (w) }",
    )


def test_a_computed_position_over_equal_shapes_is_a_gather_of_the_stack():
    report = assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[2] w, int64 i) => (float[2] y, float[2] z) {
            s = SequenceConstruct (x, w)  y = SequenceAt (s, i)  z = SequenceAt (s, i) }""",
        after="""g (float[2] x, float[2] w, int64 i) => (float[2] y, float[2] z) <int64[1] a = {0}, int64[1] b = {0}> {
            p = Unsqueeze (x, a)  q = Unsqueeze (w, b)  s = Concat <axis = 0> (p, q)  y = Gather <axis = 0> (s, i)  z = Gather <axis = 0> (s, i) }""",
        i=np.int64(1),
        more=[{"x": np.float32([1, 2]), "w": np.float32([3, 4]), "i": np.int64(-2)}],
    )
    assert len(report.rewritten) == 2


def test_a_computed_position_over_different_shapes_is_declined():
    text = "g (float[2] x, float[3] w, int64 i) => (float[K] y) { s = SequenceConstruct (x, w)  y = SequenceAt (s, i) }"
    assert_declines(LowerSequence(), text, "not all of one known shape")


def test_a_position_outside_is_declined():
    text = "g (float[2] x) => (float[2] y) <int64 i = {1}> { s = SequenceConstruct (x)  y = SequenceAt (s, i) }"
    assert_declines(LowerSequence(), text, "position 1 is outside a sequence of 1 elements")


def test_a_computed_place_of_insertion_is_declined():
    text = """g (float[2] x, float[2] w, int64 i) => (float[4] y) {
        s = SequenceConstruct (x)  t = SequenceInsert (s, w, i)  y = ConcatFromSequence <axis = 0> (t) }"""
    assert_declines(LowerSequence(), text, "the position of a SequenceInsert is computed at run time")


def test_an_input_of_the_model_is_declined():
    assert_declines(
        LowerSequence(), "g (seq(float[2]) s) => (float[2] y) <int64 i = {0}> { y = SequenceAt (s, i) }", "it is an input of the model"
    )


def test_joining_an_empty_list_is_declined():
    text = "g (float[2] x) => (float[K] y, float[2] z) { s = SequenceEmpty <dtype = 1> ()  y = ConcatFromSequence <axis = 0> (s)  z = Neg (x) }"
    assert_declines(LowerSequence(), text, "the sequence is empty")


# -- splits ----------------------------------------------------------------------------------------


def test_equal_runs_are_the_outputs_of_one_split():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2,5] x) => (float[2,2] a, float[2,1] c) <int64 k = {2}, int64 i0 = {0}, int64 i2 = {2}> {
            s = SplitToSequence <axis = 1> (x, k)  a = SequenceAt (s, i0)  c = SequenceAt (s, i2) }""",
        after="g (float[2,5] x) => (float[2,2] a, float[2,1] c) <int64[3] k = {2, 2, 1}> { a, b, c = Split <axis = 1> (x, k) }",
    )


def test_rows_of_an_unknown_number_are_gathered():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[N,2] x) => (float[2] y, int64 n) <int64 i = {-1}> {
            s = SplitToSequence <axis = 0, keepdims = 0> (x)  y = SequenceAt (s, i)  n = SequenceLength (s) }""",
        after="""g (float[N,2] x) => (float[2] y, int64 n) <int64 i = {-1}, int64 z = {0}> {
            y = Gather <axis = 0> (x, i)  h = Shape (x)  n = Gather <axis = 0> (h, z) }""",
    )


@pytest.mark.parametrize("attributes", ["axis = 0", "axis = 1", "axis = -1", "axis = 1, keepdims = 0", "axis = 0, keepdims = 0", "axis = -2, keepdims = 0"])
@pytest.mark.parametrize("join", ["axis = 0", "axis = 1", "axis = -1", "axis = 0, new_axis = 1", "axis = 1, new_axis = 1", "axis = -1, new_axis = 1"])
@pytest.mark.parametrize("shape", ["3,4", "N,4", "3,M", "N,M"])
def test_any_split_and_any_join(attributes, join, shape):
    if "keepdims" in attributes and join == "axis = 1":
        join = "axis = 0"
    text = f"g (float[{shape}] x) => (float y) {{ s = SplitToSequence <{attributes}> (x)  j = ConcatFromSequence <{join}> (s)  y = ReduceSum <keepdims = 0> (j) }}"
    full = text.replace("y = ReduceSum <keepdims = 0> (j)", "y = Identity (j)").replace("float y", f"float[{'P,Q,R' if 'new' in join and 'keep' not in attributes else 'P' if 'new' not in join and 'keep' in attributes else 'P,Q'}] y")
    assert_gone(full, {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}, {"x": np.arange(12, dtype=np.float32).reshape(3, 4) * -1})


@pytest.mark.parametrize("position", ["int64 i = {0}", "int64 i = {2}", "int64 i = {-1}"])
@pytest.mark.parametrize("given", ["int64 k = {2}", "int64 k = {1}", "int64[3] k = {1, 2, 3}", "int64 k = {4}"])
@pytest.mark.parametrize("dims", ["6,2", "N,2"])
def test_any_run(position, given, dims):
    if given == "int64 k = {4}":
        position = position.replace("{2}", "{1}")
    text = f"""g (float[{dims}] x) => (float[A,B] y, int64 n) <{given}, {position}> {{
        s = SplitToSequence <axis = 0> (x, k)  y = SequenceAt (s, i)  n = SequenceLength (s) }}"""
    unknown_end = dims == "N,2" and "{-1}" in position and given in {"int64 k = {2}", "int64 k = {4}"}
    if unknown_end:
        assert any("counted from the end" in e.reason for e in assert_equal_outputs(LowerSequence(), text, {"x": np.ones((6, 2), np.float32)}).declined)
    else:
        assert_gone(text, {"x": np.arange(12, dtype=np.float32).reshape(6, 2)})


def test_unknown_sizes_of_a_known_number_of_runs():
    assert_gone(
        """g (float[6] x, int64[2] k) => (float[A] y, float[6] z) <int64 i = {1}> {
            s = SplitToSequence <axis = 0> (x, k)  y = SequenceAt (s, i)  z = ConcatFromSequence <axis = 0> (s) }""",
        {"x": np.arange(6, dtype=np.float32), "k": np.int64([2, 4])},
        {"x": np.arange(6, dtype=np.float32), "k": np.int64([6, 0])},
    )


def test_old_opsets_have_axes_and_sizes_as_attributes():
    assert_gone(
        """g (float[4,2] x, float[2] w) => (float[A,2] y, float[2,2] z) <int64 k = {3}, int64 i = {0}> {
            s = SplitToSequence <axis = 0> (x, k)  y = SequenceAt (s, i)  t = SequenceConstruct (w, w)  z = ConcatFromSequence <axis = 0, new_axis = 1> (t) }""",
        {"x": np.arange(8, dtype=np.float32).reshape(4, 2), "w": np.float32([5, 6])},
        opset=11,
    )


# -- If --------------------------------------------------------------------------------------------

CHOICE = """g (float[2] x, float[3] w, bool c) => (float[K] y, int64 n) {
    s = If (c) <then_branch = t () => (seq(float[K]) a) { a = SequenceConstruct (x, w) },
                else_branch = e () => (seq(float[K]) b) { b = SequenceConstruct (w) }>
    y = ConcatFromSequence <axis = 0> (s)  n = SequenceLength (s) }"""


def test_a_choice_of_lists_is_read_in_the_branches():
    assert_rewrites(
        LowerSequence(),
        before=CHOICE,
        after="""g (float[2] x, float[3] w, bool c) => (float[K] y, int64 n) {
            y, n = If (c) <then_branch = t () => (float[K] a, int64 m) <int64 one = {2}> { a = Concat <axis = 0> (x, w)  m = Identity (one) },
                           else_branch = e () => (float[K] b, int64 m2) <int64 one2 = {1}> { b = Identity (w)  m2 = Identity (one2) }> }""",
        c=np.bool_(True),
        more=[{"x": np.float32([1, 2]), "w": np.float32([3, 4, 5]), "c": np.bool_(False)}],
    )


def test_what_both_branches_keep_is_no_choice():
    assert_gone(
        """g (float[2] x, float[2] w, bool c) => (float[2] y, float[K] z) <int64 i = {0}> {
            q = SequenceConstruct (x)
            s = If (c) <then_branch = t () => (seq(float[2]) a) { a = SequenceInsert (q, w) },
                        else_branch = e () => (seq(float[2]) b) { n = Neg (w)  b = SequenceInsert (q, n) }>
            y = SequenceAt (s, i)  z = ConcatFromSequence <axis = 0> (s) }""",
        *({"x": np.float32([1, 2]), "w": np.float32([3, 4]), "c": np.bool_(c)} for c in (True, False)),
    )


def test_an_empty_branch_is_declined():
    text = """g (float[2] x, bool c) => (float[K] y) {
        s = If (c) <then_branch = t () => (seq(float[2]) a) { a = SequenceConstruct (x) },
                    else_branch = e () => (seq(float[2]) b) { b = SequenceEmpty <dtype = 1> () }>
        y = ConcatFromSequence <axis = 0> (s) }"""
    assert_declines(LowerSequence(), text, "the sequence is empty")


# -- Loop ------------------------------------------------------------------------------------------


def loop(body, initial="e = SequenceEmpty <dtype = 1> ()", after="y = ConcatFromSequence <axis = 0, new_axis = 1> (s)", outputs="float[P,2] y", start="e"):
    return f"""g (float[N,2] x, float[2] w, int64 m) => ({outputs}) <bool c = {{1}}> {{
        {initial}  s = Loop (m, c, {start}) <body = b (int64 i, bool ci, seq(float[2]) q) => (bool co, seq(float[2]) qo) {{
            co = Identity (ci)  r = Gather <axis = 0> (x, i)  {body} }}>  {after} }}"""


def trips(*counts):
    return [{"x": np.arange(10, dtype=np.float32).reshape(5, 2), "w": np.float32([7, 8]), "m": np.int64(m)} for m in counts]


def test_a_list_that_grows_is_a_scan_output():
    assert_rewrites(
        LowerSequence(),
        before=loop("v = Neg (r)  qo = SequenceInsert (q, v)"),
        after="""g (float[N,2] x, float[2] w, int64 m) => (float[P,2] y) <bool c = {1}> {
            y = Loop (m, c) <body = b (int64 i, bool ci) => (bool co, float[2] v) { co = Identity (ci)  r = Gather <axis = 0> (x, i)  v = Neg (r) }> }""",
        m=np.int64(3),
        more=trips(1, 3),
    )


@pytest.mark.parametrize(
    "body",
    [
        "qo = SequenceInsert (q, r)",
        "z = Constant <value_int = 0> ()  qo = SequenceInsert (q, r, z)",
        "v = Neg (r)  p = SequenceInsert (q, v)  qo = SequenceInsert (p, r)",
        "z = Constant <value_int = 0> ()  v = Neg (r)  p = SequenceInsert (q, v)  qo = SequenceInsert (p, r, z)",
        "k = SplitToSequence <axis = 0, keepdims = 0> (x)  a = SequenceAt (k, i)  qo = SequenceInsert (q, a)",
    ],
)
@pytest.mark.parametrize("initial", ["e = SequenceEmpty <dtype = 1> ()", "e = SequenceConstruct (w)", "v0 = Neg (w)  e = SequenceConstruct (w, v0)"])
def test_any_way_to_grow(body, initial):
    count = "  n = SequenceLength (s)"
    text = loop(body, initial, "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)" + count, "float[P,2] y, int64 n")
    assert_gone(text, *trips(1, 2, 4))
    if "Empty" not in initial:
        assert_gone(text, *trips(0))


def test_the_last_element_of_a_growing_list_is_carried():
    assert_gone(loop("l = Constant <value_int = -1> ()  a = SequenceAt (q, l)  v = Add (a, r)  qo = SequenceInsert (q, v)", "e = SequenceConstruct (w)"), *trips(0, 1, 3))


def test_the_length_of_a_growing_list_is_counted():
    body = "n = SequenceLength (q)  f = Cast <to = 1> (n)  v = Mul (r, f)  qo = SequenceInsert (q, v)"
    assert_gone(loop(body, "e = SequenceConstruct (w)"), *trips(0, 1, 3))


def test_other_reads_of_a_growing_list_are_declined():
    body = "a = SequenceAt (q, i)  v = Add (a, r)  qo = SequenceInsert (q, v)"
    assert_declines(LowerSequence(), loop(body, "e = SequenceConstruct (w)"), "reads the list inside the loop that grows it")


def test_rows_whose_shape_changes_are_declined():
    body = "z = Constant <value_int = 1> ()  h = Add (i, z)  sh = Unsqueeze (h, zz)  v = Expand (one, sh)  qo = SequenceInsert (q, v)"
    text = f"""g (int64 m) => (float[P] y) <bool c = {{1}}, int64[1] zz = {{0}}, float one = {{1}}> {{
        e = SequenceEmpty <dtype = 1> ()  s = Loop (m, c, e) <body = b (int64 i, bool ci, seq(float[K]) q) => (bool co, seq(float[K]) qo) {{
            co = Identity (ci)  {body} }}>  y = ConcatFromSequence <axis = 0> (s) }}"""
    assert_declines(LowerSequence(), text, "not known to be the same on every trip")


def test_a_list_that_some_trips_append_to_is_declined():
    body = """sum = ReduceSum <keepdims = 0> (r)  z = Constant <value_float = 8.0> ()  k = Greater (sum, z)
        qo = If (k) <then_branch = t () => (seq(float[2]) a) { a = SequenceInsert (q, r) }, else_branch = f () => (seq(float[2]) d) { d = Identity (q) }>"""
    assert_declines(LowerSequence(), loop(body, "e = SequenceConstruct (w)"), "some trips append to the list and others do not")


@pytest.mark.parametrize("start", ["e = SequenceConstruct (w)", "e = SequenceEmpty <dtype = 1> ()"])
@pytest.mark.parametrize("swap", [False, True])
def test_a_list_that_some_of_a_known_number_of_trips_append_to_is_the_front_of_a_buffer(start, swap):
    append, keep = "z1 = SequenceInsert (q, n)", "z2 = Identity (q)"
    then, other = (keep, append) if swap else (append, keep)
    text = f"""g (float[4,2] x, float[2] w, float t) => (float[P,2] y, int64 k) <bool c = {{1}}, int64 m = {{4}}> {{
        {start}  s = Loop (m, c, e) <body = b (int64 i, bool ci, seq(float[2]) q) => (bool co, seq(float[2]) qo) {{
            co = Identity (ci)  r = Gather <axis = 0> (x, i)  sum = ReduceSum <keepdims = 0> (r)  g = Greater (sum, t)  n = Neg (r)
            qo = If (g) <then_branch = a () => (seq(float[2]) {then[:2]}) {{ {then} }}, else_branch = d () => (seq(float[2]) {other[:2]}) {{ {other} }}> }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (s)  k = SequenceLength (s) }}"""
    feeds = [{"x": np.arange(8, dtype=np.float32).reshape(4, 2), "w": np.float32([7, 8]), "t": np.float32(t)} for t in (3, 9)]
    if "Empty" not in start:
        feeds += [{**feeds[0], "t": np.float32(t)} for t in (-1, 99)]
    assert_gone(text, *feeds)


def test_every_branch_appends_one():
    body = """sum = ReduceSum <keepdims = 0> (r)  z = Constant <value_float = 8.0> ()  k = Greater (sum, z)
        qo = If (k) <then_branch = t () => (seq(float[2]) a) { a = SequenceInsert (q, r) },
                     else_branch = f () => (seq(float[2]) d) { v = Neg (r)  d = SequenceInsert (q, v) }>"""
    assert_gone(loop(body, "e = SequenceConstruct (w)"), *trips(0, 1, 4))


def test_a_list_of_fixed_length_is_carried_as_tensors():
    body = """z = Constant <value_int = 0> ()  l = Constant <value_int = 1> ()  a = SequenceAt (q, z)  b0 = SequenceAt (q, l)
        v = Add (a, r)  p = SequenceConstruct (b0)  qo = SequenceInsert (p, v)"""
    assert_gone(loop(body, "v0 = Neg (w)  e = SequenceConstruct (w, v0)"), *trips(0, 1, 4))


def test_an_unchanged_list_is_read_where_it_was_made():
    assert_gone(loop("a = SequenceAt (q, i)  qo = Identity (q)", "v0 = Neg (w)  e = SequenceConstruct (w, v0)"), *trips(0, 1, 2))


def test_nested_loops_append_to_one_list():
    assert_gone(
        """g (float[3,2] x, int64 m) => (float[P,2] y) <bool c = {1}, int64 k = {2}> {
            e = SequenceEmpty <dtype = 1> ()
            s = Loop (m, c, e) <body = b (int64 i, bool ci, seq(float[2]) q) => (bool co, seq(float[2]) qo) {
                co = Identity (ci)  r = Gather <axis = 0> (x, i)
                qo = Loop (k, c, q) <body = d (int64 j, bool cj, seq(float[2]) p) => (bool cp, seq(float[2]) po) {
                    cp = Identity (cj)  f = Cast <to = 1> (j)  v = Add (r, f)  po = SequenceInsert (p, v) }> }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }""",
        *({"x": np.arange(6, dtype=np.float32).reshape(3, 2), "m": np.int64(m)} for m in (1, 3)),
    )


def test_an_early_exit_ends_the_list():
    assert_gone(
        """g (float[5,2] x, float t) => (float[P,2] y) <bool c = {1}, int64 m = {5}> {
            e = SequenceEmpty <dtype = 1> ()
            s = Loop (m, c, e) <body = b (int64 i, bool ci, seq(float[2]) q) => (bool co, seq(float[2]) qo) {
                r = Gather <axis = 0> (x, i)  sum = ReduceSum <keepdims = 0> (r)  co = Less (sum, t)  qo = SequenceInsert (q, r) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }""",
        *({"x": np.arange(10, dtype=np.float32).reshape(5, 2), "t": np.float32(t)} for t in (0, 6, 100)),
    )


# -- SequenceMap -----------------------------------------------------------------------------------


def test_a_map_over_a_known_list_is_a_copy_for_each():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[2] x, float[3] w, float k) => (float[5] y) {
            s = SequenceConstruct (x, w)
            t = SequenceMap (s, k) <body = b (float[K] e, float f) => (float[K] r) { r = Mul (e, f) }>
            y = ConcatFromSequence <axis = 0> (t) }""",
        after="g (float[2] x, float[3] w, float k) => (float[5] y) { a = Mul (x, k)  b = Mul (w, k)  y = Concat <axis = 0> (a, b) }",
    )


def test_a_map_over_two_lists():
    assert_gone(
        """g (float[3,2] x, float[3,2] w) => (float[3,2] y) {
            s = SplitToSequence <axis = 0, keepdims = 0> (x)  u = SplitToSequence <axis = 0, keepdims = 0> (w)
            t = SequenceMap (s, u) <body = b (float[2] e, float[2] f) => (float[2] r) { r = Mul (e, f) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (t) }"""
    )


def test_a_map_over_a_list_of_unknown_length_is_a_scan():
    assert_rewrites(
        LowerSequence(),
        before="""g (float[N,2] x, float k) => (float[N,2] y) {
            s = SplitToSequence <axis = 0, keepdims = 0> (x)
            t = SequenceMap (s, k) <body = b (float[2] e, float f) => (float[2] r) { r = Mul (e, f) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (t) }""",
        after="""g (float[N,2] x, float k) => (float[N,2] y) {
            y = Scan (x) <num_scan_inputs = 1, body = b (float[2] e) => (float[2] z) { r = Mul (e, k)  z = Identity (r) }> }""",
    )


# -- laws ------------------------------------------------------------------------------------------

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "erase", "insert_last", "erase_last", "map"]), st.integers(0, 7), st.booleans()), max_size=8
)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS, st.integers(0, 7))
def test_any_list_program(operations, read):
    length, names, lines = 2, 0, ["s0 = SequenceConstruct (x, w)"]
    weights = []
    for kind, where, backward in operations:
        old, new = f"s{names}", f"s{names + 1}"
        if kind.startswith("erase") and length == 1:
            continue
        if kind == "map":
            lines.append(f"{new} = SequenceMap ({old}) <body = b{names} (float[2] e{names}) => (float[2] r{names}) {{ r{names} = Neg (e{names}) }}>")
        else:
            at = where % (length + 1 if kind == "insert" else length)
            at = at - length if backward and at < length else at
            weights.append(f"int64 k{names} = {{{at}}}")
            element = f"v{names}"
            lines.append(f"{element} = Add (x, w)") if kind.startswith("insert") else None
            place = "" if kind.endswith("last") else f", k{names}"
            lines.append(f"{new} = SequenceInsert ({old}, {element}{place})" if kind.startswith("insert") else f"{new} = SequenceErase ({old}{place})")
            length += 1 if kind.startswith("insert") else -1
        names += 1
    weights.append(f"int64 at = {{{read % length}}}")
    text = f"""g (float[2] x, float[2] w) => (float[2] y, float[{length},2] z, int64 n) <{', '.join(weights)}> {{
        {' '.join(lines)}  y = SequenceAt (s{names}, at)  z = ConcatFromSequence <axis = 0, new_axis = 1> (s{names})  n = SequenceLength (s{names}) }}"""
    assert_gone(text)


def test_functions_are_looked_through_too():
    functions = """<domain: "local", opset_import: ["" : 18]> Pair (a, b) => (c) { s = SequenceConstruct (a, b)  c = ConcatFromSequence <axis = 0> (s) }"""
    source = model("g (float[2] x) => (float[4] y) { y = local.Pair (x, x) }", functions=functions)
    graph = gs.import_onnx(source)
    assert LowerSequence()(graph).rewritten
    assert [n.op for n in graph.functions[0].nodes] == ["Concat"]
    assert_same(run(source, {"x": np.float32([1, 2])}), run(gs.export_onnx(graph), {"x": np.float32([1, 2])}))


def test_a_long_chain_of_insertions_is_linear():
    lines = " ".join(f"s{k + 1} = SequenceInsert (s{k}, x)" for k in range(2000))
    graph = gs.import_onnx(model(f"g (float[2] x) => (float[P] y) {{ s0 = SequenceConstruct (x) {lines} y = ConcatFromSequence <axis = 0> (s2000) }}"))
    LowerSequence()(graph)
    assert [n.op for n in graph.nodes] == ["Concat"]
    assert len(graph.nodes[0].inputs) == 2001


def test_layers_that_stack_lists_are_lowered_one_after_the_other():
    layers = " ".join(
        f"""e{k} = SequenceEmpty <dtype = 1> ()  s{k} = Loop (m, c, e{k}) <body = b{k} (int64 i{k}, bool ci{k}, seq(float[2]) q{k}) => (bool co{k}, seq(float[2]) qo{k}) {{
            co{k} = Identity (ci{k})  r{k} = Gather <axis = 0> (t{k}, i{k})  v{k} = Relu (r{k})  qo{k} = SequenceInsert (q{k}, v{k}) }}>
            t{k + 1} = ConcatFromSequence <axis = 0, new_axis = 1> (s{k})"""
        for k in range(5)
    )
    report = assert_gone(f"g (float[4,2] t0) => (float[4,2] t5) <int64 m = {{4}}, bool c = {{1}}> {{ {layers} }}")
    assert not report.declined
