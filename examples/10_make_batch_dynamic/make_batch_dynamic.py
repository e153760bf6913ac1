"""Let a model that was exported for one batch size take any."""

import numpy as np

import onnx_gs as gs

# A model for a batch of 1: a projection, split into two heads. The batch also hides in the constant that Reshape reads.
x = gs.Variable("x", dtype=np.float32, shape=(1, 6))
heads = gs.Variable("heads", dtype=np.float32, shape=(1, 2, 4))
graph = gs.Graph(inputs=[x], outputs=[heads], opset=17)
weights = np.arange(48, dtype=np.float32).reshape(6, 8) / 48
projected = graph.layer(op="MatMul", inputs=[x, weights], outputs=["projected"])[0]
graph.layer(op="Reshape", inputs=[projected, np.array([1, 2, 4])], outputs=[heads])
gs.save(graph, "fixed.onnx")

# One call finds the constants, changes them, and proves the result by running two sizes.
found = gs.load("fixed.onnx")
report = found.make_dynamic("x", 0, "batch")
print("declined:", [entry.reason for entry in report.declined] or "nothing")
gs.save(found, "dynamic_too.onnx")

# The same by hand, for a model where you know better.
for tensor in (*graph.inputs, *graph.outputs):
    tensor.shape = ("batch", *tensor.shape[1:])

for node in graph.nodes:
    if node.op == "Reshape":
        target = node.inputs[1].values.copy()
        target[0] = 0  # ONNX: keep the dim that the input has
        node.inputs[1] = gs.Constant(f"{node.inputs[1].name}_any_batch", target)

gs.save(graph, "dynamic.onnx")
print(graph.inputs[0], graph.outputs[0])
