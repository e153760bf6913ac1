"""Edits of a loop's signature: carried values and scan outputs come and go, node and body in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import Variable, dtypes, liveness, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.analysis.loops import LoopParts
    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.edit import Editor


#: The first version of ONNX whose ``Loop`` may carry nothing.
STATELESS = 11


def droppable(editor: Editor, loop: LoopParts, which: list[int]) -> list[int]:
    """Give those of some carried values that may be taken out: before opset 11 a loop has to carry something."""
    return which[:-1] if editor.root.opset < STATELESS and which and len(which) == loop.carried else which


def drop_carried(editor: Editor, loop: LoopParts, which: list[int]) -> None:
    """Take carried values out of a loop; nothing may read them any more."""
    if not which:
        return
    gone = set(which)
    node, body, carried = loop.node, loop.body, loop.carried
    outputs = [t for at, t in enumerate(node.outputs) if at not in gone]
    editor.set_outputs(body, [t for at, t in enumerate(body.outputs) if at - 1 not in gone or at - 1 >= carried])
    editor.set_inputs(body, [t for at, t in enumerate(body.inputs) if at - 2 not in gone])
    node.inputs[:] = [t for at, t in enumerate(node.inputs) if at - 2 not in gone]
    node.outputs[:] = outputs


def drop_scans(editor: Editor, loop: LoopParts, which: list[int]) -> None:
    """Take scan outputs out of a loop; nothing may read them any more."""
    if not which:
        return
    gone = {loop.carried + j for j in which}
    outputs = [t for at, t in enumerate(loop.node.outputs) if at not in gone]
    editor.set_outputs(loop.body, [t for at, t in enumerate(loop.body.outputs) if at - 1 not in gone])
    loop.node.outputs[:] = outputs


def drop_dead_nodes(editor: Editor, body: Graph) -> None:
    """Remove the nodes of a body that its outputs do not depend on."""
    present = editor.final_nodes(body)
    probe = type(body)(present, body.inputs, body.outputs, opset=body.opset)
    live = {id(n) for n in liveness.live_nodes(probe)}
    for node in present:
        if id(node) not in live:
            editor.remove(body, node)


def add_carried(editor: Editor, loop: LoopParts, initial: Tensor, inside: Tensor, outside: Tensor, final: Tensor) -> None:
    """Give a loop one more carried value, after the others.

    Args:
        editor: the edits of the pass.
        loop: the loop.
        initial: what it starts as.
        inside: what it is during a trip: a new formal input.
        outside: what it is after a trip, defined by the body.
        final: what it is after the loop: a new output of the node.
    """
    node, body, carried = loop.node, loop.body, loop.carried
    outputs = [*node.outputs[:carried], final, *node.outputs[carried:]]
    node.inputs.append(initial)
    editor.set_inputs(body, [*body.inputs, inside])
    editor.set_outputs(body, [*body.outputs[: 1 + carried], outside, *body.outputs[1 + carried :]])
    node.outputs[:] = outputs


def add_scan(editor: Editor, loop: LoopParts, row: Tensor, scan: Tensor) -> None:
    """Give a loop one more scan output, after the others: ``row`` is what the body yields each trip."""
    editor.set_outputs(loop.body, [*loop.body.outputs, row])
    loop.node.outputs.append(scan)


def body_like(graph: Graph, name: str, nodes: Sequence[Node], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
    """Make a body for a node of a model: of its class, opset and functions."""
    kind = type(graph) if not hasattr(graph, "unique_id") else next(k for k in type(graph).__mro__[1:] if not hasattr(k, "unique_id"))
    made: Graph = kind(list(nodes), list(inputs), list(outputs), name=name, opset=graph.opset, import_domains=graph.import_domains)
    made._functions = graph._functions
    made.ir_version = graph.ir_version
    made.model = graph.model
    return made


def forget_symbols(body: Graph) -> None:
    """Take symbolic dims off what a body defines: copies of the body may differ in them, trip by trip."""
    for graph in walk.graphs(body):
        for t in (*graph.inputs, *(t for node in graph.nodes for t in node.outputs)):
            if isinstance(t, Variable) and t.shape is not None and any(isinstance(d, str) for d in t.shape):
                nested = t.value_type if t.type != "tensor_type" else None
                if nested is None:
                    t.shape = [None if isinstance(d, str) else d for d in t.shape]


def static_zero_rows(row: Tensor) -> np.ndarray[Any, Any] | None:
    """Give what a scan output holds after no trip: no rows, of the row's static dims; None where they are not known.

    ONNX Runtime gives unknown dims the size 0 here, which no rewrite should rely on.
    """
    known = dtypes.of(row)
    if known is None or row.shape is None or any(not isinstance(d, (int, np.integer)) or d < 0 for d in row.shape) or known.kind == "string":
        return None
    return np.zeros((0, *(int(d) for d in row.shape)), known.numpy)
