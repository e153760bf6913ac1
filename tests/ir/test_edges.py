"""Flat edges, and the passes that work on them."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import onnx_gs as gs
from onnx_gs.ir import liveness
from onnx_gs.ir.edges import Edges


def test_an_omitted_output_is_no_edge_even_where_the_same_object_is_an_omitted_input() -> None:
    empty, x, y, z = gs.Variable.empty(), gs.Variable("x"), gs.Variable("y"), gs.Variable("z")
    clip = gs.Node("Clip", "clip", inputs=[x, empty], outputs=[y])
    split = gs.Node("Split", "split", inputs=[y], outputs=[z, empty])
    graph = gs.Graph([clip, split], [x], [z])
    edges = Edges(graph)
    assert edges.read_at == [-1, -1, 0]
    assert edges.in_order()
    assert [n.name for n in graph.toposort().nodes] == ["clip", "split"]
    graph.nodes.reverse()
    assert [n.name for n in graph.toposort().nodes] == ["clip", "split"]


def test_a_node_without_outputs_is_dead() -> None:
    x, y = gs.Variable("x"), gs.Variable("y")
    graph = gs.Graph([gs.Node("Sink", inputs=[x]), gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y])
    assert [n.op for n in graph.cleanup().nodes] == ["Neg"]
    assert [n.op for n in x.outputs] == ["Neg"]


def test_a_reader_that_is_in_no_graph_stays_linked_to_what_a_dead_node_made() -> None:
    x, y, z = gs.Variable("x"), gs.Variable("y"), gs.Variable("z")
    dead = gs.Node("Exp", inputs=[x], outputs=[z])
    outsider = gs.Node("Abs", inputs=[z, x], outputs=[gs.Variable("w")])
    graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y]), dead], [x], [y])
    graph.cleanup()
    assert dead.inputs == []
    assert dead.outputs == []
    assert z.inputs == []
    assert [n.op for n in z.outputs] == ["Abs"]
    assert [t.name for t in outsider.inputs] == ["z", "x"]
    assert [n.op for n in x.outputs] == ["Abs", "Neg"]


def test_the_collector_runs_again_after_an_error() -> None:
    x, y = gs.Variable("x"), gs.Variable("y")
    graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y]), gs.Node("Abs", inputs=[y], outputs=[x])], [], [y])
    with pytest.raises(gs.OnnxGsError, match="cycle"):
        graph.toposort()
    assert gc.isenabled()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_cleanup_keeps_what_outputs_need_and_unlinks_the_rest(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    tensors = [gs.Variable("x"), gs.Constant("c", np.zeros(1, np.float32))]
    nodes = []
    for index in range(size):
        read = [tensors[k] for k in data.draw(st.lists(st.integers(0, len(tensors) - 1), max_size=3))]
        made = [gs.Variable(f"t{index}_{k}") for k in range(data.draw(st.integers(0, 2)))]
        nodes.append(gs.Node("Op", f"n{index}", inputs=read, outputs=made))
        tensors.extend(made)
    outputs = [tensors[k] for k in data.draw(st.lists(st.integers(0, len(tensors) - 1), max_size=3, unique=True))]
    needed, pending = set(), list(outputs)
    while pending:
        for node in pending.pop().inputs:
            if node.name not in needed:
                needed.add(node.name)
                pending.extend(node.inputs)
    readers = {t.name: [n.name for n in t.outputs if n.name in needed] for t in tensors}
    order = data.draw(st.permutations(nodes))
    graph = gs.Graph(list(order), [tensors[0]], outputs)
    assert {n.name for n in liveness.live_nodes(graph)} == needed
    graph.cleanup()
    assert [n.name for n in graph.nodes] == [n.name for n in order if n.name in needed]
    assert all(not n.inputs and not n.outputs for n in nodes if n.name not in needed)
    assert {t.name: [n.name for n in t.outputs] for t in tensors} == readers
    assert all([n.name for n in t.inputs] == [n.name for n in t.inputs if n.name in needed] for t in tensors)
