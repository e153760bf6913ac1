"""Write a model like a program: `layer` makes nodes from tensors, names, arrays and numbers; `register` gives operators names of their own."""

import numpy as np

import onnx_gs as gs


@gs.Graph.register()
def linear(self, x, outputs, seed):
    random = np.random.default_rng(seed)
    weights = random.normal(size=(x.shape[-1], outputs)).astype(np.float32) / np.float32(np.sqrt(x.shape[-1]))
    result = self.layer(op="Gemm", inputs=[x, weights, np.zeros(outputs, np.float32)], outputs=["linear"])[0]
    result.dtype, result.shape = np.float32, (*x.shape[:-1], outputs)
    return result


@gs.Graph.register()
def swish(self, x):
    gate = self.layer(op="Sigmoid", inputs=[x], outputs=["gate"])[0]
    result = self.layer(op="Mul", inputs=[x, gate], outputs=["swish"])[0]
    result.dtype, result.shape = x.dtype, x.shape
    return result


graph = gs.Graph(opset=17)
pixels = gs.Variable("pixels", dtype=np.float32, shape=("batch", 64))
graph.inputs = [pixels]
hidden = graph.swish(graph.linear(pixels, 16, seed=1))
graph.outputs = [graph.linear(hidden, 4, seed=2)]
gs.save(graph, "network.onnx")
print([f"{node.name}: {node.op}" for node in graph.nodes])
