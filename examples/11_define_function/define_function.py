"""Define a local function with an attribute and call it like an operator."""

import numpy as np

import onnx_gs as gs

# blend(a, b) = a * (1 - share) + b * share; each call says its `share`, or takes 0.5.
a, b, blended = gs.Variable("a"), gs.Variable("b"), gs.Variable("blended")
share, difference, step = gs.Variable("share"), gs.Variable("difference"), gs.Variable("step")
blend = gs.Function(
    "Blend",
    domain="example.audio",
    nodes=[
        gs.Node("Constant", attrs={"value_float": gs.Node.AttributeRef("share", float)}, outputs=[share]),
        gs.Node("Sub", inputs=[b, a], outputs=[difference]),
        gs.Node("Mul", inputs=[difference, share], outputs=[step]),
        gs.Node("Add", inputs=[a, step], outputs=[blended]),
    ],
    inputs=[a, b],
    outputs=[blended],
    attrs={"share": 0.5},
    opset=17,
)

left = gs.Variable("left", dtype=np.float32, shape=("samples",))
right = gs.Variable("right", dtype=np.float32, shape=("samples",))
graph = gs.Graph(inputs=[left, right], functions=[blend], opset=17)
half = graph.Blend(inputs=[left, right], outputs=["half"])[0]
quarter = graph.Blend(inputs=[left, half], outputs=["quarter"], attrs={"share": 0.25})[0]
quarter.dtype, quarter.shape = np.float32, ("samples",)
graph.outputs = [quarter]
gs.save(graph, "blended.onnx")
print([f"{node.domain}::{node.op} {dict(node.attrs)}" for node in graph.nodes])
