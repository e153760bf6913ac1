"""Decide an If by shapes: a squeeze that asks at run time whether a dim is 1, where the model already says so."""

import numpy as np

import onnx_gs as gs

graph = gs.Graph(name="squeeze", opset=17)
rows = gs.Variable("rows", np.float32, (1, "count", 4))
graph.inputs = [rows]

# What exporters write for `rows.squeeze(0)`: is the first dim 1? Then Squeeze, else nothing.
zero, one = gs.Constant("zero", np.array(0)), gs.Constant("one", np.array(1))
sizes = graph.layer(op="Shape", inputs=[rows], outputs=["sizes"])[0]
first = graph.layer(op="Gather", inputs=[sizes, zero], outputs=["first"], attrs={"axis": 0})[0]
is_one = graph.layer(op="Equal", inputs=[first, one], outputs=["is_one"])[0]
squeezed, same = gs.Variable("squeezed", np.float32), gs.Variable("same", np.float32)
axes = gs.Constant("axes", np.array([0]))
then_branch = gs.Graph([gs.Node("Squeeze", inputs=[rows, axes], outputs=[squeezed])], outputs=[squeezed], name="then")
else_branch = gs.Graph([gs.Node("Identity", inputs=[rows], outputs=[same])], outputs=[same], name="else")
chosen = gs.Variable("chosen", np.float32)
graph.nodes.append(gs.Node("If", inputs=[is_one], outputs=[chosen], attrs={"then_branch": then_branch, "else_branch": else_branch}))
result = gs.Variable("result", np.float32)
graph.nodes.append(gs.Node("Relu", inputs=[chosen], outputs=[result]))
graph.outputs = [result]
gs.save(graph, "asked.onnx")

graph.lower_control_flow()
gs.save(graph, "decided.onnx")
print(*[node.op for node in graph.nodes])
