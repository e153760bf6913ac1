"""Copy a body with its inputs bound: the ground under inlining, unrolling and lowering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ir import walk
from onnx_gs.ir.copying import Twins, copy_nodes
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.names import Names
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


class Body:
    """A body prepared for being copied many times: what it defines is looked up once.

    Names in the model must be unique over all scopes (``edit.rename_apart``), so that what is copied out of the body meets no namesake.

    Args:
        body: the body of a node, or a function.
    """

    def __init__(self, body: Graph) -> None:
        """Look up what the body and the bodies inside it define."""
        self.body = body
        self._local: set[int] = set()
        for g in walk.graphs(body):
            self._local.update(id(t) for t in g.inputs)
            for node in g.nodes:
                self._local.update(id(t) for t in node._outputs)
            if g is not body:  # a weight that an inner body returns has to be that body's own, so each copy gets one
                self._local.update(id(t) for t in g.outputs if isinstance(t, Constant))

    def instantiate(self, bind: Sequence[Tensor], names: Names) -> tuple[list[Node], list[Tensor]]:
        """Copy the body's nodes with its inputs bound.

        What the body captures, and its weights, are shared and not copied. Copies get fresh names.

        Args:
            bind: what the formal inputs stand for, in their order.
            names: gives the fresh names.

        Returns:
            The new nodes in order, and the tensors that the body returns: each the output of a new node, a bound tensor, or a captured one.
        """
        twins = Twins(None, self._local, share=True)
        for formal, actual in zip(self.body.inputs, bind):
            twins.made[id(formal)] = actual
        given = set(twins.made)
        nodes = copy_nodes(self.body, twins)
        outputs = [twins(t) for t in self.body.outputs]
        for old, new in twins.made.items():
            if old in self._local and old not in given and new._name:
                new._name = names.fresh(new._name)
        for node in nodes:
            if node.name:
                node.name = names.fresh(node.name)
        return nodes, outputs


def instantiate(body: Graph, bind: Sequence[Tensor], names: Names) -> tuple[list[Node], list[Tensor]]:
    """Copy a body's nodes with its inputs bound, once; see ``Body.instantiate``."""
    return Body(body).instantiate(bind, names)
