"""Evaluation node by node: what fails is isolated, whatever it takes."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import onnxruntime, partition
from onnx_gs.evaluate.partition import Evaluation


def chain(ops, value=None):
    previous = gs.Constant("c", np.float32([1, 2]) if value is None else value)
    nodes = []
    for k, op in enumerate(ops):
        following = gs.Variable(f"t{k}")
        nodes.append(gs.Node(op, name=f"n{k}", inputs=[previous], outputs=[following]))
        previous = following
    return nodes


def test_many_nodes_share_a_session(monkeypatch):
    made = []
    original = onnxruntime.nodes_session
    monkeypatch.setattr(onnxruntime, "nodes_session", lambda *a: made.append(len(a[1])) or original(*a))
    evaluation = Evaluation(gs.Graph(opset=18), lambda *_: pytest.fail("failed"))
    nodes = chain(["Tanh"] * (partition.BATCH + 36))
    for node in nodes:
        evaluation.add(node)
    evaluation.flush()
    assert made == [partition.BATCH, 36]
    expected = np.float32([1, 2])
    for node in nodes:
        expected = np.tanh(expected)
        np.testing.assert_allclose(evaluation.value(node.outputs[0]), expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [[0], [7], [3, 11, 12], list(range(0, 20, 2))])
def test_each_failing_node_is_isolated(bad):
    failed = []
    evaluation = Evaluation(gs.Graph(opset=18), lambda node, _: failed.append(node.name))
    nodes = []
    for k in range(20):
        node = gs.Node("NoSuchOp" if k in bad else "Tanh", name=f"n{k}", inputs=[gs.Constant("c", np.float32([k]))], outputs=[gs.Variable(f"t{k}")])
        nodes.append(node)
        evaluation.add(node)
    after = gs.Node("Exp", name="after", inputs=[nodes[bad[0]].outputs[0]], outputs=[gs.Variable("after")])
    evaluation.add(after)
    evaluation.flush()
    assert sorted(failed) == sorted(f"n{k}" for k in bad)
    for k, node in enumerate(nodes):
        assert (evaluation.value(node.outputs[0]) is None) == (k in bad)
    assert evaluation.value(after.outputs[0]) is None


def test_division_by_zero_of_a_value_from_a_session():
    failed = []
    evaluation = Evaluation(gs.Graph(opset=18), lambda node, error: failed.append((node.name, error.what)))
    divisor, quotient, cast = gs.Variable("d"), gs.Variable("q"), gs.Variable("i")
    nodes = [
        gs.Node("Sin", name="sin", inputs=[gs.Constant("z", np.float32([0]))], outputs=[divisor]),
        gs.Node("Cast", name="cast", attrs={"to": 7}, inputs=[divisor], outputs=[cast]),
        gs.Node("Div", name="div", inputs=[gs.Constant("a", np.int64([1])), cast], outputs=[quotient]),
    ]
    for node in nodes:
        evaluation.add(node)
    evaluation.flush()
    assert [name for name, _ in failed] == ["div"]
    assert evaluation.value(cast).tolist() == [0]


def test_large_results_do_not_pile_up_in_one_session(monkeypatch):
    made = []
    original = onnxruntime.nodes_session
    monkeypatch.setattr(onnxruntime, "nodes_session", lambda *a: made.append(len(a[1])) or original(*a))
    monkeypatch.setattr(partition, "BATCH_BYTES", 1 << 20)
    freed = []

    def done(node):
        freed.append(node)
        for t in node.inputs:
            evaluation.forget(t)

    evaluation = Evaluation(gs.Graph(opset=18), lambda *_: pytest.fail("failed"), done)
    for node in chain(["Tanh"] * 12, np.ones(1 << 17, np.float32)):
        evaluation.add(node)
    evaluation.flush()
    assert made == [2] * 6
    assert len(freed) == 12
    assert len(evaluation.values) == 1
