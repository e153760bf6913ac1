"""Optional outputs that nothing reads become absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.ops import schema
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph


@dataclass(frozen=True)
class DropUnusedOutputs(Pass):
    """Rename optional outputs that nothing reads to empty, and take empty ones off the end.

    Matches:   an output that the specification lets a node leave out, such as the mask of ``Dropout``, which no node reads and no graph returns.
    Rewrites:  it becomes empty; positions never shift.
    Declines:  nothing.
    TensorRT:  refuses some operators that give more than their first output.
    """

    name: ClassVar[str] = "drop-unused-outputs"

    def run(self, graph: Graph, report: Report) -> None:
        """Look at every node with several outputs, bodies and functions included."""
        owners = [owner for work in works(graph, report) for owner in work.graphs()]
        returned = {id(t) for owner in owners for t in owner.outputs}
        for owner in owners:
            for node in owner.nodes:
                outputs = node._outputs
                if len(outputs) < 2 and (not outputs or outputs[0]._outputs):
                    continue
                for at, t in enumerate(list(outputs)):
                    unused = t._name and not t._outputs and id(t) not in returned and not isinstance(t, Constant)
                    if unused and at and node.is_onnx and schema.may_omit_output(node, at, owner.opset):
                        report.rewrote(owner, node, f"without its output {at}")
                        outputs[at] = Variable.empty()
                while len(outputs) > 1 and outputs[-1].is_empty() and node.is_onnx and schema.may_omit_output(node, len(outputs) - 1, owner.opset):
                    outputs.pop()
