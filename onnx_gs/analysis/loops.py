"""The parts of a ``Loop`` by their roles, so that nobody counts positions twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import Tensor, Variable
from onnx_gs.ir.shapes import same_dim

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node

#: What exporters write for "no limit".
ENDLESS = np.iinfo(np.int64).max


class LoopParts:
    """A view of one ``Loop``: trip count, conditions, carried values, scan outputs.

    Carried value ``k`` starts as ``initial(k)``, is ``state_in(k)`` during a trip, becomes ``state_out(k)``, and ends as ``final(k)``. Scan
    output ``j`` collects ``row(j)`` of every trip into ``scan(j)``.

    Args:
        node: the ``Loop``; omitted trailing inputs and outputs are filled up with empty tensors, which changes nothing.

    Spec: ``ai.onnx::Loop-16``.
    """

    def __init__(self, node: Node) -> None:
        """Look at a loop."""
        self.node = node
        self.body: Graph = node.attrs["body"]
        while len(node.inputs) < 2:
            node.inputs.append(Variable.empty())
        while len(node.outputs) < len(self.body.outputs) - 1:
            node.outputs.append(Variable.empty())

    @property
    def well_formed(self) -> bool:
        """Say whether the counts of inputs and outputs agree."""
        carried = len(self.node.inputs) - 2
        return len(self.body.inputs) == carried + 2 and len(self.body.outputs) >= carried + 1 and len(self.node.outputs) == len(self.body.outputs) - 1

    @property
    def carried(self) -> int:
        """How many values the loop carries."""
        return len(self.node.inputs) - 2

    @property
    def scans(self) -> int:
        """How many scan outputs the loop has."""
        return len(self.body.outputs) - 1 - self.carried

    @property
    def trip(self) -> Tensor:
        """The trip count that is given; empty where there is none."""
        return self.node.inputs[0]

    @property
    def cond(self) -> Tensor:
        """The condition that is given; empty where there is none."""
        return self.node.inputs[1]

    @property
    def iteration(self) -> Tensor:
        """The iteration number, inside."""
        return self.body.inputs[0]

    @property
    def cond_in(self) -> Tensor:
        """The condition, inside."""
        return self.body.inputs[1]

    @property
    def cond_out(self) -> Tensor:
        """Whether to go on, as the body says."""
        return self.body.outputs[0]

    def initial(self, k: int) -> Tensor:
        """What carried value ``k`` starts as."""
        return self.node.inputs[2 + k]

    def state_in(self, k: int) -> Tensor:
        """Carried value ``k`` during a trip."""
        return self.body.inputs[2 + k]

    def state_out(self, k: int) -> Tensor:
        """Carried value ``k`` after a trip."""
        return self.body.outputs[1 + k]

    def final(self, k: int) -> Tensor:
        """Carried value ``k`` after the loop."""
        return self.node.outputs[k]

    def row(self, j: int) -> Tensor:
        """What scan output ``j`` collects from one trip."""
        return self.body.outputs[1 + self.carried + j]

    def scan(self, j: int) -> Tensor:
        """Scan output ``j``."""
        return self.node.outputs[self.carried + j]


def origin(tensor: Tensor) -> Tensor:
    """Follow ``Identity`` nodes back to where a value comes from."""
    seen = 0
    while len(tensor.inputs) == 1 and tensor.inputs[0].op == "Identity" and tensor.inputs[0].is_onnx and seen < 1000:
        tensor = tensor.inputs[0].inputs[0]
        seen += 1
    return tensor


def is_true(tensor: Tensor) -> bool:
    """Say whether a tensor is a constant true."""
    return constness.scalar(origin(tensor)) is True


def trusted_symbols(root: Graph) -> set[str]:
    """Give the symbolic dims of a model's inputs.

    These mean one size in one run. A symbol that only values inside have may be a name that an exporter made up, once for dims that differ.
    """
    return {d for t in root.inputs if t.shape is not None for d in t.shape if isinstance(d, str) and d}


def surely_same(a: Any, b: Any, trusted: set[str]) -> bool:
    """Say whether two dims are equal in every run: two equal sizes, or one symbol that an input has."""
    return same_dim(a, b) and (not isinstance(a, str) or a in trusted)
