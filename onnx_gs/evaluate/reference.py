"""The reference implementation that comes with ``onnx``: a second opinion, and for operators that ONNX Runtime lacks.

It stacks scan outputs of ``Loop`` wrongly where these have a rank of 2 or more, so it is no judge of loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.errors import EvaluationError
from onnx_gs.io.exporter import export_onnx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_gs.ir import Graph


def run(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
    """Run a graph once in the reference implementation.

    Args:
        graph: a model's graph; it is not changed.
        feeds: values by input name.
        outputs: which outputs; None for all.

    Raises:
        EvaluationError: the reference implementation refuses the graph or the values.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", np.float32, (2,)), Variable("y", np.float32, (2,))
        >>> run(Graph([Node("Neg", inputs=[x], outputs=[y])], [x], [y]), {"x": np.ones(2, np.float32)})["y"].tolist()
        [-1.0, -1.0]
    """
    from onnx.reference import ReferenceEvaluator

    names = [t.name for t in graph.outputs] if outputs is None else list(outputs)
    try:
        found = ReferenceEvaluator(export_onnx(graph, do_type_check=False)).run(names, dict(feeds))
    except Exception as error:  # it raises whatever Python raises inside an operator
        raise EvaluationError(f"the reference implementation fails: {type(error).__name__}: {str(error)[:300]}") from error
    return dict(zip(names, found))
