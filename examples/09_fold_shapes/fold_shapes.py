"""Resolve shape arithmetic where the shape is known, while the batch stays symbolic."""

import numpy as np

import onnx_gs as gs

image = gs.Variable("image", dtype=np.float32, shape=("batch", 3, 16, 16))
tokens = gs.Variable("tokens", dtype=np.float32, shape=("batch", 3, 256))


def dim(graph, shape, index):
    return graph.layer(op="Gather", inputs=[shape, np.array(index)], outputs=["dim"])[0]


def as_list(graph, number):
    return graph.layer(op="Unsqueeze", inputs=[number, np.array([0])], outputs=["dim_list"])[0]


graph = gs.Graph(inputs=[image], outputs=[tokens], opset=17)
shape = graph.layer(op="Shape", inputs=[image], outputs=["shape"])[0]
height, width = dim(graph, shape, 2), dim(graph, shape, 3)
area = graph.layer(op="Mul", inputs=[height, width], outputs=["area"])[0]
parts = [as_list(graph, number) for number in (dim(graph, shape, 0), dim(graph, shape, 1), area)]
target = graph.layer(op="Concat", inputs=parts, outputs=["target"], attrs={"axis": 0})[0]
graph.layer(op="Reshape", inputs=[image, target], outputs=[tokens])
gs.save(graph, "exported.onnx")
before = len(graph.nodes)

graph.fold_constants().cleanup()
gs.save(graph, "folded.onnx")
print(before, "->", len(graph.nodes), [node.op for node in graph.nodes])
