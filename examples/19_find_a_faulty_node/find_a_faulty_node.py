"""Compare, isolate, capture, bisect, diff: from wrong scores to the node that makes them wrong."""

import numpy as np

import onnx_gs as gs
from onnx_gs.debug.bisect import bisect
from onnx_gs.debug.capture import record_part, save_test_data
from onnx_gs.debug.diff import diff
from onnx_gs.debug.layerwise import layerwise
from onnx_gs.evaluate import feeds, onnxruntime


def classifier(slope):
    """Give a model of three layers whose second activation has this slope."""
    rng = np.random.default_rng(0)
    x = gs.Variable("x", np.float32, ("batch", 8))
    graph, t = gs.Graph(inputs=[x], opset=18), x
    for layer in range(3):
        weights = gs.Constant(f"w{layer}", rng.standard_normal((8, 8)).astype(np.float32))
        summed, active = gs.Variable(f"summed{layer}", np.float32, ("batch", 8)), gs.Variable(f"active{layer}", np.float32, ("batch", 8))
        graph.nodes.append(gs.Node("MatMul", f"matmul{layer}", inputs=[t, weights], outputs=[summed]))
        attrs = {"alpha": slope if layer == 1 else 0.1}
        graph.nodes.append(gs.Node("LeakyRelu", f"activate{layer}", attrs, inputs=[summed], outputs=[active]))
        t = active
    graph.outputs = [t]
    return graph


good, bad = classifier(0.1), classifier(0.2)
gs.save(good, "good.onnx")
gs.save(bad, "bad.onnx")
given = feeds.make(good)

# Where do they part?
first = layerwise(good, bad, feeds=given).first
print(f"first difference: '{first.name}', made by {first.producer}")

# The part of the bad model up to there, with what goes in and comes out.
part = gs.isolate(bad, outputs=[first.other])
gs.save(part, "part.onnx")
inputs, outputs = record_part(bad, part, given)
save_test_data(".", inputs, outputs)


# A part of the bad model is right when it gives, on the same inputs, what the good model has at that place.
def is_right(case):
    right = gs.isolate(good, [t.name for t in case.graph.inputs], [t.name for t in case.graph.outputs])
    expected = onnxruntime.run(right, case.inputs)
    found = onnxruntime.run(case.graph, case.inputs)
    return all(np.array_equal(found[name], expected[name]) for name in found)


result = bisect(part, is_right, feeds=inputs, folder="bisect")
print(f"faulty: {result.nodes[0]}, after {result.runs} runs")
for change in diff(good, bad).changes:
    print(change)
