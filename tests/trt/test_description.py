from __future__ import annotations

import json

import pytest

from onnx_gs.errors import GraphTypeError, TensorRTError
from onnx_gs.trt.description import describe, describe_network
from onnx_gs.trt.layers import onnx_nodes
from tests.support.rewrites import parse

TEXT = """g (float[2] x, bool p, int64 m) => (float[2] y) <bool c = {1}> {
    y = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
        co = Identity (ci)
        so = If (p) <then_branch = t () => (float[2] a) { a = Exp (s) }, else_branch = e () => (float[2] d) { d = Identity (s) }>
    }> (m, c, x) }"""


def test_metadata():
    assert onnx_nodes("[ONNX Layer: add | tb (then_branch) | if_3 (If)] [ONNX Layer: mul]") == ["add", "if_3", "mul"]
    assert onnx_nodes("") == []


def test_constructs_stand_next_to_their_onnx_nodes():
    pytest.importorskip("tensorrt_rtx")
    found = describe(parse(TEXT))
    assert [(depth, c.onnx) for depth, c in found.walk()] == [
        (0, "graph 'g' > node #0 (Loop)"),
        (1, "graph 'g' > node #0 (Loop) > body > node #1 (If)"),
    ]
    (loop,), (conditional,) = found.loops, found.conditionals
    assert [limit.kind for limit in loop.trip_limits] == ["COUNT", "WHILE"]
    assert any(r.initial == "x" and r.next == "so" for r in loop.recurrences)
    assert [(o.tensor, o.kind, o.axis) for o in loop.outputs] == [("y", "LAST_VALUE", None)]
    assert conditional.condition == "p"
    assert conditional.lazy_true == ("node_of_a",)
    text = str(found)
    assert "loop 'node_of_y'" in text
    assert "  | conditional 'node_of_so'" in text
    assert json.loads(json.dumps(found.as_dict()))["constructs"][0]["inside"][0]["kind"] == "conditional"


def test_a_loop_in_a_branch_is_part_of_it_and_of_the_loop_around():
    pytest.importorskip("tensorrt_rtx")
    text = """g (float[2] x, int64 m, bool p) => (float[2] y) <bool c = {1}> { y = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
        co = Identity (ci)
        so = If (p) <then_branch = t () => (float[2] a) {
            a = Loop <body = bb (int64 ii, bool cci, float[2] ss) => (bool cco, float[2] sso) { cco = Identity (cci) sso = Mul (ss, x) }> (m, c, s)
        }, else_branch = e () => (float[2] d) { d = Neg (s) }> }> (m, c, x) }"""
    found = describe(parse(text))
    outer, inner = found.loops
    (conditional,) = found.conditionals
    assert "node_of_sso" in inner.layers
    assert conditional.lazy_true == inner.layers
    assert conditional.lazy_false == ("node_of_d",)
    assert conditional.eager == ()
    assert set(outer.layers) >= {*inner.layers, "node_of_d"}


def test_what_is_refused():
    pytest.importorskip("tensorrt_rtx")
    with pytest.raises(TensorRTError) as raised:
        describe(parse("g (float[2,2] x) => (float y) { y = Det (x) }"))
    assert raised.value.where == "graph 'g' > node #0 (Det)"
    with pytest.raises(GraphTypeError):
        describe_network(object())
    with pytest.raises(GraphTypeError):
        describe(7)
