from __future__ import annotations

import numpy as np

from onnx_gs.passes.lower_optional import LowerOptional
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

FEEDS = [{"x": np.float32([1, -2]), "w": np.float32([3, 4]), "c": np.bool_(c)} for c in (True, False)]


def test_a_wrapped_value_is_the_value():
    assert_rewrites(
        LowerOptional(),
        before="""g (float[2] x) => (float[2] y, bool h) { o = Optional (x)  e = OptionalGetElement (o)  y = Neg (e)  h = OptionalHasElement (o) }""",
        after="g (float[2] x) => (float[2] y, bool h) <bool h = {1}> { y = Neg (x) }",
    )


def test_an_empty_optional_has_no_element():
    assert_rewrites(
        LowerOptional(),
        before="g (float[2] x) => (bool h, float[2] y) { o = Optional <type = float[2]> ()  h = OptionalHasElement (o)  y = Neg (x) }",
        after="g (float[2] x) => (bool h, float[2] y) <bool h = {0}> { y = Neg (x) }",
    )


def test_a_missing_input_has_no_element_and_a_tensor_is_one():
    assert_rewrites(
        LowerOptional(),
        before="g (float[2] x) => (bool h, bool k, float[2] y) { h = OptionalHasElement ()  k = OptionalHasElement (x)  e = OptionalGetElement (x)  y = Neg (e) }",
        after="g (float[2] x) => (bool h, bool k, float[2] y) <bool h = {0}, bool k = {1}> { y = Neg (x) }",
    )


def test_reading_an_empty_optional_is_declined():
    text = "g (float[2] x) => (float[2] y) { o = Optional <type = float[2]> ()  e = OptionalGetElement (o)  y = Add (e, x) }"
    assert_declines(LowerOptional(), text, "the optional is empty, so reading it fails")


def test_an_optional_of_the_interface_is_declined():
    text = "g (optional(float[2]) o) => (float[2] y) { y = OptionalGetElement (o) }"
    assert_declines(LowerOptional(), text, "it comes from outside")


def test_what_an_if_chooses_is_chosen_as_a_tensor():
    assert_rewrites(
        LowerOptional(),
        before="""g (float[2] x, float[2] w, bool c) => (float[2] y) {
            o = If (c) <then_branch = t () => (optional(float[2]) a) { a = Optional (x) },
                        else_branch = e () => (optional(float[2]) b) { n = Neg (w)  b = Optional (n) }>
            y = OptionalGetElement (o) }""",
        after="""g (float[2] x, float[2] w, bool c) => (float[2] y) {
            y = If (c) <then_branch = t () => (float[2] a) { a = Identity (x) }, else_branch = e () => (float[2] n) { n = Neg (w) }> }""",
        more=FEEDS,
    )


def test_presence_that_an_if_decides_is_its_condition():
    text = """g (float[2] x, bool c) => (bool h, float[2] y) {{
        o = If (c) <then_branch = t () => (optional(float[2]) a) {{ {} }}, else_branch = e () => (optional(float[2]) b) {{ {} }}>
        h = OptionalHasElement (o)  y = Neg (x) }}"""
    present, absent = "{0} = Optional (x)", "{0} = Optional <type = float[2]> ()"
    for first, second in ((present, absent), (absent, present)):
        assert_equal_outputs(LowerOptional(), text.format(first.format("a"), second.format("b")), *FEEDS)


def test_an_optional_that_a_loop_hands_on_is_followed():
    assert_equal_outputs(
        LowerOptional(),
        """g (float[2] x, float[2] w) => (float[2] y) <bool c = {1}, int64 m = {3}> {
            o = Optional (w)
            y, p = Loop (m, c, x, o) <body = b (int64 i, bool ci, float[2] s, optional(float[2]) q) => (bool co, float[2] so, optional(float[2]) qo) {
                co = Identity (ci)  e = OptionalGetElement (q)  so = Add (s, e)  qo = Identity (q) }> }""",
        *FEEDS,
    )
