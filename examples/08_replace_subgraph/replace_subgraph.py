"""Find a pattern and put one node in its place: the five nodes that exporters write for GELU become `Gelu`, which opset 20 has."""

import math

import numpy as np

import onnx_gs as gs


def exported_gelu(graph, x, outputs):
    scaled = graph.layer(op="Div", inputs=[x, np.float32(math.sqrt(2))], outputs=["scaled"])[0]
    erf = graph.layer(op="Erf", inputs=[scaled], outputs=["erf"])[0]
    shifted = graph.layer(op="Add", inputs=[erf, np.float32(1)], outputs=["shifted"])[0]
    product = graph.layer(op="Mul", inputs=[x, shifted], outputs=["product"])[0]
    return graph.layer(op="Mul", inputs=[product, np.float32(0.5)], outputs=outputs)[0]


x, y = gs.Variable("x", dtype=np.float32, shape=("n", 8)), gs.Variable("y", dtype=np.float32, shape=("n", 8))
graph = gs.Graph(inputs=[x], outputs=[y], opset=20)
exported_gelu(graph, exported_gelu(graph, x, ["between"]), [y])
gs.save(graph, "exported.onnx")

pattern = gs.GraphPattern()
source = pattern.variable()
root_two, one, half = (pattern.constant(name) for name in ("root_two", "one", "half"))
scaled = pattern.add("div", "Div", inputs=[source, root_two])
erf = pattern.add("erf", "Erf", inputs=[scaled])
shifted = pattern.add("add", "Add", inputs=[erf, one])
product = pattern.add("gate", "Mul", inputs=[source, shifted])
pattern.set_output_tensors([pattern.add("halve", "Mul", inputs=[product, half])])

found = pattern.match_all(graph)
for match in found:
    values = {name: float(tensor.values) for name, tensor in match.constants.items()}
    if not (math.isclose(values["root_two"], math.sqrt(2), rel_tol=1e-6) and values["one"] == 1 and values["half"] == 0.5):
        continue  # the same operators, another formula
    read, written = match.inputs[0], match.outputs[0]
    written.inputs.clear()
    graph.nodes.append(gs.Node("Gelu", inputs=[read], outputs=[written]))

graph.cleanup().toposort()
gs.save(graph, "replaced.onnx")
print(len(found), "found;", [node.op for node in graph.nodes])
