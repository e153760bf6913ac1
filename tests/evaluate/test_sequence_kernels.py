"""Kernels on sequences: what ONNX Runtime gives, or nothing."""

import itertools

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import onnxruntime, sequence_kernels
from onnx_gs.evaluate.compare import compare

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def both(op, attrs, arrays, *, sequence=()):
    """Give what ONNX Runtime and the kernel make of inputs; the first input is the sequence of ``sequence`` where there are some."""
    node_inputs, made, values = [], [gs.Variable("out")], []
    nodes = []
    if sequence:
        items = [gs.Constant(f"s{k}", x) for k, x in enumerate(sequence)]
        held = gs.Variable("held")
        nodes.append(gs.Node("SequenceConstruct", inputs=items, outputs=[held]))
        node_inputs.append(held)
        values.append(list(sequence))
    for k, x in enumerate(arrays):
        node_inputs.append(gs.Variable.empty() if x is None else gs.Constant(f"i{k}", x))
        values.append(x)
    node = gs.Node(op, attrs=attrs, inputs=node_inputs, outputs=made)
    graph = gs.Graph([*nodes, node], [], made, opset=18)
    try:
        expected = onnxruntime.run(graph, {})["out"]
    except gs.OnnxGsError:
        expected = None
    return expected, sequence_kernels.evaluate(node, values)


def agree(expected, found):
    if found is None:
        return
    assert expected is not None
    [found] = found
    if isinstance(found, list):
        assert isinstance(expected, list)
        assert len(found) == len(expected)
        assert all(compare(a, b) is None for a, b in zip(expected, found))
    else:
        assert compare(np.asarray(expected), found) is None


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, 3])
@pytest.mark.parametrize("split", [None, 1, 2, 3, 5, 0, -1, (1, 1), (1, 2), (4,), (2, 0, 2), ()])
def test_split_to_sequence(axis, keepdims, split):
    given = [] if split is None else [np.array(split, np.int64)]
    expected, found = both("SplitToSequence", {"axis": axis, "keepdims": keepdims}, [X, *given])
    agree(expected, found)
    if split in {1, 2} and keepdims:
        assert (found is None) == (expected is None)


@pytest.mark.parametrize("at", [0, 1, 2, -1, -3, 3, -4])
def test_positions(at):
    items, where = [X, X + 1, X[0]], np.array(at)
    for op, arrays in (("SequenceAt", [where]), ("SequenceErase", [where]), ("SequenceInsert", [X[:1], where])):
        expected, found = both(op, {}, arrays, sequence=items)
        agree(expected, found)
        assert (found is None) == (expected is None)


def test_without_a_position():
    for op, arrays in (("SequenceErase", []), ("SequenceInsert", [X[:1]]), ("SequenceLength", [])):
        expected, found = both(op, {}, arrays, sequence=[X, X + 1])
        assert found is not None
        agree(expected, found)


@pytest.mark.parametrize(("axis", "new_axis"), list(itertools.product([0, 1, 2, 3, -1, -3, -4, 4], [0, 1])))
def test_concat_from_sequence(axis, new_axis):
    for items in ([X, X + 1], [X], [X, X[:1]], [X, X[0]]):
        expected, found = both("ConcatFromSequence", {"axis": axis, "new_axis": new_axis}, [], sequence=items)
        agree(expected, found)


def test_what_is_not_sure_is_declined():
    assert sequence_kernels.evaluate(gs.Node("SequenceConstruct"), [X, np.array(1)]) is None
    assert sequence_kernels.evaluate(gs.Node("SequenceErase"), [[X]]) is None
    assert sequence_kernels.evaluate(gs.Node("SequenceInsert"), [[X], np.array(1)]) is None
    assert sequence_kernels.evaluate(gs.Node("ConcatFromSequence", attrs={"axis": 0}), [[]]) is None


def test_split_sequences_fold_without_a_session(monkeypatch):
    def refuse(*_):
        raise AssertionError("a session was made")

    parts, part, out = gs.Variable("parts"), gs.Variable("part"), gs.Variable("out", np.float32, (1, 4, 3))
    nodes = [
        gs.Node("SplitToSequence", inputs=[gs.Constant("x", X)], outputs=[parts]),
        gs.Node("SequenceAt", inputs=[parts, gs.Constant("at", np.array(-1))], outputs=[part]),
        gs.Node("Transpose", attrs={"perm": [0, 2, 1]}, inputs=[part], outputs=[out]),
    ]
    graph = gs.Graph(nodes, [], [out], opset=18)
    expected = onnxruntime.run(graph, {})["out"]
    monkeypatch.setattr(onnxruntime, "nodes_session", refuse)
    graph.simplify()
    assert not graph.nodes
    assert compare(expected, np.asarray(graph.outputs[0].values)) is None


def test_bfloat16_casts_fold_and_what_has_no_kernel_stays(monkeypatch, caplog):
    monkeypatch.setattr(onnxruntime, "nodes_session", lambda *_: pytest.fail("a session was made"))
    short, root = gs.Variable("short"), gs.Variable("root", gs.ir.dtypes.BFLOAT16.number, (3,))
    special = np.array([1.00390625, np.nan, -0.0], np.float32)
    cast = gs.Node("Cast", attrs={"to": gs.ir.dtypes.BFLOAT16.number}, inputs=[gs.Constant("x", special)], outputs=[short])
    graph = gs.Graph([cast, gs.Node("Sqrt", inputs=[short], outputs=[root])], [], [root], opset=18)
    graph.fold_constants().cleanup()
    assert [node.op for node in graph.nodes] == ["Sqrt"]
    assert graph.nodes[0].inputs[0].values.view(np.uint16).tolist() == [0x3F80, 0x7FC0, 0x8000]
    assert "no kernel for bfloat16" in caplog.text
