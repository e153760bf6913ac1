"""What is not valid ONNX: nothing else is asked about such a model, as rules would stumble, and TensorRT's parser crashes at some of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.errors import GraphError
from onnx_gs.ir import Constant, walk
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ops import domains
from onnx_gs.ops.use import counts_say_all, misuse
from onnx_gs.trt.facts import ModelFacts
from onnx_gs.trt.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir import Graph, Node, Tensor


def malformed(facts: ModelFacts) -> Iterator[Finding]:
    """Find inputs and outputs that nothing makes, and nodes that are not given what their operators take."""
    entering = {id(t) for owner in walk.graphs(facts.graph, functions=True) for t in owner.inputs}
    for owner, version in [(g, domains.version(root, "")) for root in (facts.graph, *facts.graph.functions) for g in walk.graphs(root)]:
        sound: set[tuple[str, int, int]] = set()
        for node in owner.nodes:
            lost, omits = None, False
            for tensor in node._inputs:
                if tensor.__class__ is Constant or (tensor._inputs and tensor._name):  # of constants no links are asked for: it would make them
                    continue
                if not tensor._name:
                    omits = True
                elif not isinstance(tensor, Constant) and id(tensor) not in entering:
                    lost = tensor
            if lost is not None:
                yield _invalid(facts, node, f"it reads '{lost.name}', which nothing makes", lost)
            if node.domain not in ONNX_DOMAINS:
                continue
            use = (node.op, len(node._inputs), len(node._outputs))
            if not omits and use in sound:
                continue
            wrong = misuse(node, version)
            if wrong is not None:
                yield _invalid(facts, node, wrong)
            elif counts_say_all(node.op, version):
                sound.add(use)
    for tensor in facts.graph.outputs:
        if tensor.name and not tensor.inputs and not isinstance(tensor, Constant) and id(tensor) not in entering:
            yield finding("invalid-onnx", f"graph '{facts.graph.name}'", f"output '{tensor.name}' is made by nothing", tensor=tensor.name)


def _invalid(facts: ModelFacts, node: Node, reason: str, tensor: Tensor | None = None) -> Finding:
    return finding("invalid-onnx", facts.index.by_node[id(node)].path, reason, tensor=tensor.name if tensor is not None else "", op=node.op)


def require_valid(graph: Graph) -> None:
    """See that a graph has nothing at which TensorRT's parser crashes.

    Raises:
        GraphError: it is not valid ONNX.
    """
    wrong = next(malformed(ModelFacts(graph)), None)
    if wrong is not None:
        raise GraphError(f"the model is not valid ONNX: {wrong.reason}", where=wrong.path, fix="correct the model")
