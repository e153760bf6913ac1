"""Take nodes out of a model: probes that a training framework left behind, which no runtime knows."""

import numpy as np

import onnx_gs as gs

x = gs.Variable("x", dtype=np.float32, shape=(4,))
seen, doubled, seen_again, y = gs.Variable("seen"), gs.Variable("doubled"), gs.Variable("seen_again"), gs.Variable("y", dtype=np.float32, shape=(4,))
graph = gs.Graph(
    [
        gs.Node("Probe", domain="example.training", inputs=[x], outputs=[seen]),
        gs.Node("Add", inputs=[seen, seen], outputs=[doubled]),
        gs.Node("Probe", domain="example.training", inputs=[doubled], outputs=[seen_again]),
        gs.Node("Tanh", inputs=[seen_again], outputs=[y]),
    ],
    inputs=[x],
    outputs=[y],
    opset=17,
)

for probe in [node for node in graph.nodes if node.op == "Probe"]:
    before, after = probe.inputs[0], probe.outputs[0]
    for reader in list(after.outputs):
        reader.inputs = [before if tensor is after else tensor for tensor in reader.inputs]

graph.cleanup()  # nothing reads what the probes give, so they go
gs.save(graph, "without_probes.onnx")
print([node.op for node in graph.nodes])
