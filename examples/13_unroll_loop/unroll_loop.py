"""Unroll a counted loop: five steps of a small recurrence become ten plain nodes that share one weight."""

import numpy as np

import onnx_gs as gs
from onnx_gs.passes.lower_control_flow import LowerControlFlow

graph = gs.Graph(name="recurrence", opset=17)
state = gs.Variable("state", np.float32, (1, 8))
graph.inputs = [state]

# The body of a loop is a graph of its own: iteration number, condition and carried values come in; condition and next values go out.
# It may read what stands outside, such as the weight here, without listing it.
weight = gs.Constant("weight", np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 3)
number, going, before = gs.Variable("number", np.int64, ()), gs.Variable("going", np.bool_, ()), gs.Variable("before", np.float32, (1, 8))
mixed, after, go_on = gs.Variable("mixed"), gs.Variable("after", np.float32, (1, 8)), gs.Variable("go_on", np.bool_, ())
body = gs.Graph(
    nodes=[
        gs.Node("MatMul", inputs=[before, weight], outputs=[mixed]),
        gs.Node("Tanh", inputs=[mixed], outputs=[after]),
        gs.Node("Identity", inputs=[going], outputs=[go_on]),
    ],
    inputs=[number, going, before],
    outputs=[go_on, after],
    name="step",
)
last = gs.Variable("last", np.float32, (1, 8))
trips = gs.Constant("trips", np.array(5))
graph.nodes.append(gs.Node("Loop", name="steps", attrs={"body": body}, inputs=[trips, gs.Variable.empty(), state], outputs=[last]))
graph.outputs = [last]
gs.save(graph, "looped.onnx")

report = LowerControlFlow()(graph)
gs.save(graph, "unrolled.onnx")
print(*[node.op for node in graph.nodes])
print("left over:", [entry.path for entry in report.left] or "nothing")
