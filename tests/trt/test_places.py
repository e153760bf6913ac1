from __future__ import annotations

from onnx_gs.trt.places import NodeIndex, places
from tests.support.rewrites import parse

TEXT = """g (float[2] x, bool p) => (float[2] y) {
    h = local.f (x)
    y = If (p) <then_branch = t () => (float[2] a) { a = Exp (h) }, else_branch = e () => (float[2] b) { b = Exp (x) }> }"""
FUNCTION = '<opset_import: ["" : 18], domain: "local"> f (x) => (y) { y = Exp (x) }'


def test_paths_go_through_bodies_and_functions():
    assert [p.path for p in places(parse(TEXT, functions=FUNCTION))] == [
        "graph 'g' > node #0 (f)",
        "graph 'g' > node #1 (If)",
        "graph 'g' > node #1 (If) > then_branch > node #0 (Exp)",
        "graph 'g' > node #1 (If) > else_branch > node #0 (Exp)",
        "function 'local::f' > node #0 (Exp)",
    ]


def test_the_names_that_tensorrt_speaks_of():
    index = NodeIndex(parse(TEXT, functions=FUNCTION))
    assert index.of_parser("node_of_b", "Exp", 0, "").path.endswith("else_branch > node #0 (Exp)")
    assert index.of_parser("", "If", 1, "false").path.endswith("node #1 (If)")
    assert index.of_parser("", "Exp", 0, "Invalid Node - node_of_a").path.endswith("then_branch > node #0 (Exp)")
    assert index.of_parser("", "Det", 0, "") is None
    assert index.of_text("IConditionalOutputLayer node_of_y_OutputLayer: Must have").path.endswith("node #1 (If)")
    assert index.of_text("failed at {ForeignNode[node_of_a...node_of_y]}").path.endswith("then_branch > node #0 (Exp)")
    assert index.of_text("(Unnamed Layer* 9) [Recurrence]: bad", {"(Unnamed Layer* 9) [Recurrence]": "node_of_y"}).path.endswith("node #1 (If)")
    assert index.of_text("tensor h is bad").path.endswith("node #0 (f)")
    assert index.of_text("nothing known") is None
