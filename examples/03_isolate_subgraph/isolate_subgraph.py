"""Cut a part out of a model: from the first convolution's result to the second convolution's."""

from pathlib import Path

import numpy as np

import onnx_gs as gs

MODEL = Path(__file__).parent.parent / "models" / "keyword_spotter.onnx"

graph = gs.load(MODEL)
tensors = graph.tensors()
begin, end = tensors["/stem/Conv_output_0"], tensors["/mix/Conv_output_0"]
begin.dtype, begin.shape = np.float32, ("batch", 32, 48)
end.dtype, end.shape = np.float32, ("batch", 32, 48)

graph.inputs = [begin]
graph.outputs = [end]
graph.cleanup()  # what the new outputs do not need goes, and so does what feeds the new inputs
gs.save(graph, "part.onnx")
print(len(graph.nodes), "nodes from", begin.name, "to", end.name)
