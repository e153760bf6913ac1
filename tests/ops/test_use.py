from __future__ import annotations

import pytest

from onnx_gs.ops.use import misuse
from tests.support.rewrites import parse

BODY = "body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity (ci) so = Neg (s) }"
IF = "y = If <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }> (p)"


@pytest.mark.parametrize(
    "text",
    [
        "y = Neg (x)",
        "y = Sum (x, x, x)",
        'y = Clip (x, "", lo)',
        'y = Resize <mode = "nearest"> (x, "", lo)',
        "y, i = TopK (x, m)",
        "k = Constant <value_float = 1.0> () y = Add (x, k)",
        f"y = Loop <{BODY}> (m, p, x)",
        f'y = Loop <{BODY}> ("", p, x)',
        IF,
        "t, y = Scan <num_scan_inputs = 1, body = b (float s, float r) => (float s2, float o) { s2 = Add (s, r) o = Neg (r) }> (lo, x)",
        "y = NoSuchOperator (x)",
        "y = other.Neg (x, x)",
    ],
)
def test_what_is_well_formed(text):
    graph = parse(f"g (float[2] x, int64 m, bool p, float lo) => (float[2] y) {{ {text} }}")
    assert [misuse(node, 18) for node in graph.nodes if node.is_onnx] == [None] * sum(node.is_onnx for node in graph.nodes)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("y = Add (x)", "it has 1 input, and takes 2"),
        ("y = Neg (x, x)", "it has 2 inputs, and takes 1"),
        ("y = Concat <axis = 0> ()", "it has 0 inputs, and takes at least 1"),
        ("y, z = Neg (x)", "it has 2 outputs, and gives 1"),
        ('y = Add (x, "")', "input 'B' is left out, which it must have"),
        ("y = Cast (x)", "it has no attribute 'to', which it must have"),
        ("y = Constant ()", "it has 0 attributes, and takes one, which is its value"),
        ("y = Loop (m, p, x)", "it has no attribute 'body', which it must have"),
        (f"y = Loop <{BODY}> (m, p)", "its body has 3 inputs, and takes the trip, the condition and 0 carried values"),
        (f"y, z = Loop <{BODY}> (m, p, x)", "it has 2 outputs, and its body gives 1 values for them"),
        (
            "y = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co) { co = Identity (ci) }> (m, p, x)",
            "its body gives 1 values, and must give the condition and 1 carried values",
        ),
        (IF.replace("e () => (float[2] b)", "e () => (float[2] b, float[2] b)"), "its else_branch gives 2 values for 1 outputs"),
        (IF.replace("t () =>", "t (float[2] q) =>"), "its then_branch has inputs, and takes none"),
        (IF.split(", else", maxsplit=1)[0] + "> (p)", "it has no attribute 'else_branch', which it must have"),
        ("y = Scan <num_scan_inputs = 5, body = b (float r) => (float o) { o = Neg (r) }> (x)", "it goes through 5 of its 1 inputs"),
        ("y = Scan <num_scan_inputs = 1, body = b (float r, float q) => (float o) { o = Neg (r) }> (x)", "its body has 2 inputs for 1"),
        (
            "y, z = Scan <num_scan_inputs = 1, body = b (float r) => (float o) { o = Neg (r) }> (x)",
            "its body gives 1 values for 0 states and 2 outputs",
        ),
    ],
)
def test_what_is_not(text, what):
    graph = parse(f"g (float[2] x, int64 m, bool p) => (float[2] y) {{ {text} }}")
    assert misuse(graph.nodes[0], 18) == what


def test_definitions_differ_by_version():
    node = parse("g (float[2] x, int64[1] a) => (float[1,2] y) { y = Unsqueeze (x, a) }").nodes[0]
    assert misuse(node, 13) is None
    assert misuse(node, 11) == "it has 2 inputs, and takes 1"
    assert misuse(node, None) is None
