"""Compute once what never changes: window coefficients that an exporter left as arithmetic."""

import numpy as np

import onnx_gs as gs

signal = gs.Variable("signal", dtype=np.float32, shape=("batch", 8))
windowed = gs.Variable("windowed", dtype=np.float32, shape=("batch", 8))
steps, angles, waves, halves, window = (gs.Variable(name) for name in ("steps", "angles", "waves", "halves", "window"))



def number(name, value):
    return gs.Constant(name, np.array(value, dtype=np.float32))


nodes = [
    gs.Node("Range", inputs=[number("start", 0), number("stop", 8), number("step", 1)], outputs=[steps]),
    gs.Node("Mul", inputs=[steps, number("turn", 2 * np.pi / 8)], outputs=[angles]),
    gs.Node("Cos", inputs=[angles], outputs=[waves]),
    gs.Node("Mul", inputs=[waves, number("half", -0.5)], outputs=[halves]),
    gs.Node("Add", inputs=[halves, number("offset", 0.5)], outputs=[window]),
    gs.Node("Mul", inputs=[signal, window], outputs=[windowed]),
]
graph = gs.Graph(nodes, inputs=[signal], outputs=[windowed], opset=17)
gs.save(graph, "arithmetic.onnx")

graph.fold_constants().cleanup()
gs.save(graph, "folded.onnx")
print([node.op for node in graph.nodes], graph.tensors()["window"].values)
