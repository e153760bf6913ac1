"""Order nodes, bodies and functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.errors import GraphValueError
from onnx_gs.ir import order, scopes, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.edges import Edges
from onnx_gs.ir.join import join_names
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from onnx_gs.ir import Graph

MODES = ("full", "nodes", "functions")


@collector_paused()
def toposort(graph: Graph, *, recurse_subgraphs: bool = True, recurse_functions: bool = True, mode: str = "full") -> None:
    """Sort a graph in place; see ``Graph.toposort``.

    Raises:
        GraphValueError: the mode is none of ``full``, ``nodes``, ``functions``.
        GraphError: there is a cycle, or a tensor's producer is not in the graph.
    """
    if mode not in MODES:
        raise GraphValueError(f"mode '{mode}' is not known", fix=f"give one of {', '.join(MODES)}")
    graph._merge_functions()
    if mode in {"full", "nodes"}:
        edges = Edges(graph)
        if join_names(graph, edges):
            edges = Edges(graph)
        for root in [graph, *graph.functions] if recurse_functions else [graph]:
            own = edges if root is graph else Edges(root)
            captured = scopes.all_captures(root)
            order.sort_nodes(root, captured, own)
            made: set[int] = set()
            for body in list(walk.graphs(root))[1:] if recurse_subgraphs else ():
                made.update(order.sort_nodes(body, captured).made_at)
            order.check_producers(root, own, made)
    if mode in {"full", "functions"}:
        order.sort_functions(graph.functions)


@dataclass(frozen=True)
class Toposort(Pass):
    """Put the nodes of a model, its bodies and functions in order, and functions after those that they call.

    Matches:   every graph. A sorted one keeps its order; otherwise the earliest ready node in the old order comes first.
    Rewrites:  the order only.
    Requires:  no cycle.
    """

    name: ClassVar[str] = "toposort"

    def run(self, graph: Graph, report: Report) -> None:
        """Sort."""
        toposort(graph)
