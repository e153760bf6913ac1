"""Store weights in types that NumPy does not have: bfloat16 and 4-bit integers."""

from pathlib import Path

import ml_dtypes
import numpy as np

import onnx_gs as gs

random = np.random.default_rng(3)
x = gs.Variable("x", dtype=np.float32, shape=("batch", 64))
graph = gs.Graph(inputs=[x], opset=21)

# bfloat16: half the bytes of float32, cast back where it is used.
weights = random.normal(size=(64, 32)).astype(ml_dtypes.bfloat16)
cast = graph.layer(op="Cast", inputs=[weights], outputs=["weights"], attrs={"to": np.float32})[0]
hidden = graph.layer(op="MatMul", inputs=[x, cast], outputs=["hidden"])[0]

# int4: two weights a byte, with one scale for all of them.
integers = random.integers(-8, 8, size=(32, 16)).astype(ml_dtypes.int4)
weights_4bit = graph.layer(op="DequantizeLinear", inputs=[integers, np.float32(0.05)], outputs=["weights_4bit"])[0]
y = gs.Variable("y", dtype=np.float32, shape=("batch", 16))
graph.layer(op="MatMul", inputs=[hidden, weights_4bit], outputs=[y])
graph.outputs = [y]
gs.save(graph, "small.onnx")

print(Path("small.onnx").stat().st_size, "bytes; as float32 the weights alone would take", 4 * (weights.size + integers.size))
for constant in (t for t in gs.load("small.onnx").tensors().values() if isinstance(t, gs.Constant)):
    print(constant, constant.values.dtype)
