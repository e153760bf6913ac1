"""Make a model from nothing: scale every row of a matrix to length one."""

import numpy as np

import onnx_gs as gs

rows = gs.Variable("rows", dtype=np.float32, shape=("count", 3))
lengths = gs.Variable("lengths")  # what lies between needs neither dtype nor shape
unit_rows = gs.Variable("unit_rows", dtype=np.float32, shape=("count", 3))

measure = gs.Node("ReduceL2", name="measure", attrs={"axes": [1], "keepdims": 1}, inputs=[rows], outputs=[lengths])
divide = gs.Node("Div", name="divide", inputs=[rows, lengths], outputs=[unit_rows])

graph = gs.Graph(nodes=[measure, divide], inputs=[rows], outputs=[unit_rows], name="unit_rows", opset=17)
gs.save(graph, "unit_rows.onnx")
print(graph)
