"""Change a model in place: take decibels instead of log-mel features, and return scores before the softmax."""

from pathlib import Path

import numpy as np

import onnx_gs as gs

MODEL = Path(__file__).parent.parent / "models" / "keyword_spotter.onnx"

graph = gs.load(MODEL)

# In front: a new input, scaled into what the model was trained on. Everything that read the old input reads `features` still.
features = graph.inputs[0]
decibels = gs.Variable("decibels", dtype=np.float32, shape=features.shape)
to_nepers = gs.Constant("to_nepers", np.float32([np.log(10) / 10]))
graph.nodes.insert(0, gs.Node("Mul", name="scale", inputs=[decibels, to_nepers], outputs=[features]))
graph.inputs = [decibels]

# At the end: the softmax goes, and what it read becomes the output.
softmax = graph.outputs[0].inputs[0]
logits = softmax.inputs[0]
logits.name, logits.dtype, logits.shape = "logits", np.float32, ("batch", 10)
graph.outputs = [logits]

graph.cleanup().toposort()
gs.save(graph, "modified.onnx")
print([t.name for t in graph.inputs], "->", [t.name for t in graph.outputs])
