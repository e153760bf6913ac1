"""Real models: parts give the whole model's values, a disguised model has no differences, planted changes are found and nothing else."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import onnx_gs as gs
from benchmarks import cuts
from onnx_gs.debug.diff import diff
from onnx_gs.ir import dtypes, order, walk
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

FOLDER = os.environ.get("ONNX_GS_CORPUS", "")
MODELS = sorted(p for p in Path(FOLDER).rglob("*.onnx") if p.stat().st_size < 600e6) if FOLDER else []
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not MODELS, reason="ONNX_GS_CORPUS names no folder with models"),
    pytest.mark.filterwarnings("ignore"),
]
each_model = pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)


@each_model
def test_parts_give_the_values_of_the_whole_model(path: Path) -> None:
    found = cuts.check(path, cuts=3)
    if found.whole:
        pytest.skip(found.whole)
    assert not found.wrong


def disguised(graph: Graph, seed: int) -> Graph:
    """Rename all that is internal, and put the nodes into another order that is still one."""
    rng = random.Random(seed)
    public = {id(t) for t in (*graph.inputs, *graph.outputs)}
    count = 0
    for g in walk.graphs(graph, functions=True):
        for t in list(walk.tensors(g)):
            if id(t) not in public:
                t.name, count = f"renamed_{count}", count + 1
                public.add(id(t))
        for node in g.nodes:
            node.name, count = f"renamed_node_{count}", count + 1
        rng.shuffle(g.nodes)
    for g in walk.graphs(graph, functions=True):
        order.sort_nodes(g)
    return graph


@each_model
def test_a_disguised_model_has_no_differences(path: Path) -> None:
    assert str(diff(gs.load(path), disguised(gs.load(path), 1)))[:2000] == "no differences"


# -- planted changes ------------------------------------------------------------------------------


def change_weight(graph: Graph, rng: random.Random, taken: set[int]) -> tuple[str, str] | None:
    weights = {id(t): t for n in graph.nodes for t in n.inputs if isinstance(t, Constant) and t.shape and dtypes.of(t) is dtypes.find("float32")}
    if not weights:
        return None
    weight = rng.choice(list(weights.values()))
    if id(weight) in taken or not weight.values.size:
        return None
    taken.add(id(weight))
    values = np.array(weight.values)
    values.flat[rng.randrange(values.size)] += np.float32(1.5)
    weight.values = values
    return ("changed", "weight")


def change_attribute(graph: Graph, rng: random.Random, taken: set[int]) -> tuple[str, str] | None:
    nodes = [n for n in graph.nodes if id(n) not in taken and n.op != "Constant" and any(type(v) is int for v in n.attrs.values())]
    if not nodes:
        return None
    node = rng.choice(nodes)
    taken.add(id(node))
    name = next(k for k, v in node.attrs.items() if type(v) is int)
    node.attrs[name] += 7
    return ("changed", "attribute")


def change_operator(graph: Graph, rng: random.Random, taken: set[int]) -> tuple[str, str] | None:
    nodes = [n for n in graph.nodes if id(n) not in taken and n.op in {"Add", "Relu", "Mul", "Tanh", "Sigmoid", "Neg"}]
    if not nodes:
        return None
    node = rng.choice(nodes)
    taken.add(id(node))
    node.op = "Planted"
    return ("changed", "node")


def insert_node(graph: Graph, rng: random.Random, taken: set[int]) -> tuple[str, str] | None:
    nodes = [n for n in graph.nodes if id(n) not in taken and any(not isinstance(t, Constant) and t.name and t.inputs for t in n.inputs)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    taken.add(id(node))
    at = next(k for k, t in enumerate(node.inputs) if not isinstance(t, Constant) and t.name and t.inputs)
    new = gs.Variable("planted_value")
    taken.add(id(graph.nodes))
    planted = gs.Node("Planted", "planted_node", inputs=[node.inputs[at]], outputs=[new])
    node.inputs[at] = new
    graph.nodes.insert(next(k for k, n in enumerate(graph.nodes) if n is node), planted)
    return ("added", "node")


def remove_node(graph: Graph, rng: random.Random, taken: set[int]) -> tuple[str, str] | None:
    def passes_on(n: Node) -> bool:
        returned = {id(t) for g in walk.graphs(graph) for t in g.outputs}
        one = [t for t in n.inputs if not isinstance(t, Constant) and t.name]
        return len(one) == 1 and len(n.inputs) == 1 and len(n.outputs) == 1 and bool(n.outputs[0].outputs) and id(n.outputs[0]) not in returned and bool(one[0].inputs)

    nodes = [n for n in graph.nodes if id(n) not in taken and n.op in {"Relu", "Tanh", "Transpose", "Cast", "Sigmoid", "Neg", "Sqrt", "Softmax"} and passes_on(n)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    source: Tensor = node.inputs[0]
    near = [*source.inputs, *node.outputs[0].outputs]
    if any(id(n) in taken for n in near):
        return None
    taken.update(id(n) for n in near)
    for reader in list(node.outputs[0].outputs):
        reader.inputs = [source if t is node.outputs[0] else t for t in reader.inputs]
    node.inputs.clear()
    node.outputs.clear()
    graph.nodes[:] = [n for n in graph.nodes if n is not node]
    return ("removed", "node")


PLANTS: list[Callable[[Graph, random.Random, set[int]], tuple[str, str] | None]] = [
    change_weight, change_attribute, change_operator, insert_node, remove_node,
]  # fmt: skip


def plant(graph: Graph, seed: int, kinds: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    taken: set[int] = set()
    return sorted(done for make in rng.sample(PLANTS, kinds) if (done := make(graph, rng, taken)) is not None)


@pytest.mark.parametrize("disguise", [False, True], ids=["named", "renamed"])
@each_model
def test_planted_changes_are_found_and_nothing_else(path: Path, disguise: bool) -> None:
    for seed in range(4):
        before, after = gs.load(path), gs.load(path)
        planted = plant(after, seed, kinds=1 + seed)
        if disguise:
            disguised(after, seed)
        found = diff(before, after)
        assert sorted((c.kind, c.what) for c in found.changes) == planted, f"seed {seed}: planted {planted}, found\n{str(found)[:2000]}"
