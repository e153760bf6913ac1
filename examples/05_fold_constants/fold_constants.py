"""Compute once what never changes: window coefficients that an exporter left as arithmetic."""

import numpy as np

import onnx_gs as gs

signal = gs.Variable("signal", dtype=np.float32, shape=("batch", 8))
windowed = gs.Variable("windowed", dtype=np.float32, shape=("batch", 8))
steps, angles, waves, halves, window = (gs.Variable(name) for name in ("steps", "angles", "waves", "halves", "window"))

nodes = [
    gs.Node("Range", inputs=[gs.Constant(name, np.float32(value)) for name, value in (("start", 0), ("stop", 8), ("step", 1))], outputs=[steps]),
    gs.Node("Mul", inputs=[steps, gs.Constant("turn", np.float32(2 * np.pi / 8))], outputs=[angles]),
    gs.Node("Cos", inputs=[angles], outputs=[waves]),
    gs.Node("Mul", inputs=[waves, gs.Constant("half", np.float32(-0.5))], outputs=[halves]),
    gs.Node("Add", inputs=[halves, gs.Constant("offset", np.float32(0.5))], outputs=[window]),
    gs.Node("Mul", inputs=[signal, window], outputs=[windowed]),
]
graph = gs.Graph(nodes, inputs=[signal], outputs=[windowed], opset=17)
gs.save(graph, "arithmetic.onnx")

graph.fold_constants().cleanup()
gs.save(graph, "folded.onnx")
print([node.op for node in graph.nodes], graph.tensors()["window"].values)
