"""Declared shapes that the inputs and operators of a model contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis.shape_values import public_shape
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Variable
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor


@dataclass(frozen=True)
class CheckDeclaredShapes(Pass):
    """Forget the declared shape of a computed tensor whose ``Shape`` or ``Size`` is taken, where it cannot be right.

    Who makes the batch of a model dynamic, or another number, by its inputs alone leaves the old number in the shapes that are declared of all other
    tensors. What folding concludes from those would be wrong.

    Matches:   a tensor that is read by ``ai.onnx::Shape`` or ``Size``, whose declared rank or sizes are other than what its operator makes of the
               shapes of its inputs.
    Rewrites:  its shape becomes the computed one; an output of the graph keeps what it declares, and is not believed.
    Declines:  nothing; declared sizes that nothing contradicts are trusted.
    """

    name: ClassVar[str] = "check-declared-shapes"
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Correct the shapes in place and warn about what was wrong. Facts are found only where something is declared that matters."""
        for work in works(graph, report):
            tensors = asked(work)
            if not tensors:
                continue
            returned = {id(t) for g in work.graphs() for t in g.outputs}
            for t in tensors:
                found = work.facts.shape(t)
                if found is None or not isinstance(t, Variable) or not _contradicts(t, found):
                    continue
                report.warn(f"tensor '{t.name}' is declared as {list(t.shape or ())}, but its shape is {public_shape(found)}")
                if id(t) in returned:
                    report.shared.setdefault("disbelieved", {})[id(t)] = t
                else:
                    t.shape = public_shape(found)


def asked(work: Work) -> list[Tensor]:
    """List the computed tensors with declared sizes whose shape is taken."""
    found: list[Tensor] = []
    for _, node in work.nodes(("Shape", "Size")):
        t = node._inputs[0]
        if t._inputs and t.type == "tensor_type" and t.shape is not None and (not t.shape or any(is_static_dim(d) for d in t.shape)):
            found.append(t)
    return found


def _contradicts(t: Tensor, found: tuple[object, ...]) -> bool:
    declared = t.shape or ()
    return len(declared) != len(found) or any(is_static_dim(d) and int(d) != known for d, known in zip(declared, found))
