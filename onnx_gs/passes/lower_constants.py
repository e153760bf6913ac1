"""``Constant`` nodes to weights, in all seven forms, without reading what they hold."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import constness
from onnx_gs.ir import walk
from onnx_gs.ir.tensor import Variable
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_gs.ir import Graph, Node

LOGGER = logging.getLogger("onnx_gs")


def lower(node: Node) -> bool:
    """Turn what a ``Constant`` node gives into a weight, and unlink the node from it; say whether the node has a known form.

    The node itself stays where it is, without outputs, until a cleanup.
    """
    outputs = node._outputs
    if len(outputs) != 1 or not isinstance(outputs[0], Variable):
        return False
    values = constness.values_of_node(node)
    if values is None:
        return False
    output = outputs[0]
    if len(output._inputs) == 1:  # both ends are cleared here: going by ``outputs.clear()`` takes a fifth of the time to lower
        list.clear(output._inputs)
        list.clear(outputs)
    else:
        outputs.clear()
    if output._name:
        output._hold(values)
    return True


def lower_all(graphs: Iterable[Graph], *, drop: bool = False) -> None:
    """Lower what can be lowered; what would feed an input of its graph stays.

    Args:
        graphs: the graphs, bodies apart.
        drop: also take the nodes out of their graphs.
    """
    for graph in graphs:
        inputs = {id(t) for t in graph.inputs if t._inputs}
        found = False
        for node in graph.nodes:
            if node.op == "Constant" and node.is_onnx and node._outputs and id(node._outputs[0]) not in inputs:
                found |= lower(node)
        if found and drop:
            graph.nodes[:] = [node for node in graph.nodes if node._outputs or node.op != "Constant" or not node.is_onnx]


@dataclass(frozen=True)
class LowerConstants(Pass):
    """Turn ``Constant`` nodes into weights.

    Matches:   ``ai.onnx::Constant`` with exactly one of its attributes; ``value_float`` gives float32, ``value_int`` int64.
    Rewrites:  the output becomes a weight of that name; the node goes. Nothing is read from files.
    Declines:  a reference to an attribute of the function around it, or attributes that the specification does not have.

    Before::                                    After::
        c = Constant <value_float = 2.0> ()         y = Mul (x, c)   with a weight c
        y = Mul (x, c)
    """

    name: ClassVar[str] = "lower-constants"

    def run(self, graph: Graph, report: Report) -> None:
        """Lower them all, in bodies and functions too."""
        for owner in walk.graphs(graph, functions=True):
            dead = set()
            for node in owner.nodes:
                if node.op != "Constant" or not node.is_onnx or not node._outputs:
                    continue
                if constness.values_of_node(node) is None:
                    report.decline(owner, node, "its value is no constant of a known form")
                    continue
                report.rewrote(owner, node)
                if lower(node):
                    dead.add(id(node))
            if dead:
                owner.nodes[:] = [node for node in owner.nodes if id(node) not in dead]
