"""Store weights in a model: turn Celsius, humidity and wind into a comfort score."""

import numpy as np

import onnx_gs as gs

weather = gs.Variable("weather", dtype=np.float32, shape=("stations", 3))
score = gs.Variable("score", dtype=np.float32, shape=("stations", 1))

# A Constant is a tensor with values. Whatever constants the nodes use are stored in the model; there is no list to keep.
weights = gs.Constant("weights", np.array([[0.8], [-0.3], [-0.5]], dtype=np.float32))
bias = gs.Constant("bias", np.array([2.0], dtype=np.float32))

graph = gs.Graph([gs.Node("Gemm", inputs=[weather, weights, bias], outputs=[score])], inputs=[weather], outputs=[score], opset=17)
gs.save(graph, "comfort.onnx")

stored = gs.load("comfort.onnx").tensors()["weights"]
print(stored)  # dtype and shape are known; nothing was read from the file yet
print(stored.values.ravel())  # now it was
