"""What the rewritings for TensorRT share: one node under a rule's eyes, and the driver that applies what the rule gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import constness
from onnx_gs.ir.edit import detach
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ops import schema
from onnx_gs.passes.emitter import Emitter

if TYPE_CHECKING:
    import numpy as np

    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.passes.rewriting import Work


class Declined(Exception):  # noqa: N818 - a decision, not an error of the user's
    """A rule matches, but cannot rewrite this node; the text is the reason that is reported."""


class Case:
    """One node that a rule looks at, with what it asks and what it makes.

    Args:
        work: the root under work.
        owner: the graph that holds the node.
        node: the node.
    """

    def __init__(self, work: Work, owner: Graph, node: Node) -> None:
        """Start with no new nodes."""
        self.work = work
        self.owner = owner
        self.node = node
        self.opset = work.root.opset
        self._emit: Emitter | None = None

    @property
    def emit(self) -> Emitter:
        """Makes the new nodes."""
        if self._emit is None:
            self._emit = Emitter(self.work.edit.names, self.opset, self.node.outputs[0].name or self.node.name)
        return self._emit

    @property
    def new_nodes(self) -> list[Node]:
        """The new nodes so far."""
        return [] if self._emit is None else self._emit.nodes

    def input(self, k: int) -> Tensor | None:
        """Give an input; None for an omitted one."""
        inputs = self.node.inputs
        return inputs[k] if k < len(inputs) and inputs[k].name else None

    def array(self, k: int) -> np.ndarray[Any, Any] | None:
        """Give the values of a constant input; None for one that is omitted or computed."""
        tensor = self.input(k)
        return None if tensor is None else constness.array(tensor)

    def attribute(self, name: str) -> Any:
        """Give an attribute, or its default."""
        value = schema.attribute(self.owner, self.node, name)
        return value.decode() if isinstance(value, bytes) else value

    def dtype(self, tensor: Tensor) -> DataType | None:
        """Give an element type, as far as it is known."""
        return self.work.facts.dtype(tensor)

    def shape(self, tensor: Tensor) -> list[Any] | None:
        """Give a shape, unknown dims as None."""
        found = self.work.facts.shape(tensor)
        return None if found is None else [int(d) if is_static_dim(d) else None for d in found]

    def rank(self, tensor: Tensor) -> int | None:
        """Give a rank."""
        return self.work.facts.rank(tensor)

    def is_used(self, k: int) -> bool:
        """Say whether an output is present and read or returned."""
        outputs = self.node.outputs
        return k < len(outputs) and bool(outputs[k].name) and self.work.edit.is_used(outputs[k])

    def typed(self, tensor: Tensor) -> Tensor:
        """Give the tensor with what is known about its type written down, where nothing was."""
        if not hasattr(tensor, "values"):
            if tensor.dtype is None:
                found = self.dtype(tensor)
                tensor.dtype = found.public if found is not None else None
            if tensor.shape is None:
                tensor.shape = self.shape(tensor)
        return tensor


#: What a rule gives: what stands for the node's outputs; None where it does not match.
Rule = Callable[[Case], "Sequence[Tensor | None] | None"]


def apply(rule: Rule, work: Work, owner: Graph, node: Node) -> bool:
    """Apply a rule to a node; say whether the node was rewritten."""
    case = Case(work, owner, node)
    try:
        made = rule(case)
    except Declined as why:
        for new in case.new_nodes:
            detach(new)
        work.report.decline(owner, node, str(why))
        return False
    if made is None:
        for new in case.new_nodes:
            detach(new)
        return False
    work.report.rewrote(owner, node, rule.__doc__.split(":")[0] if rule.__doc__ else "")
    work.edit.replace(owner, node, case.new_nodes, list(made))
    return True
