"""Lower a loop with a branch inside, exported from scripted PyTorch, for any number of items and for a fixed one; build both with TensorRT."""

import sys

import onnx_gs as gs
from onnx_gs.passes.lower_control_flow import LowerControlFlow

MODEL = "sum_even.onnx" if len(sys.argv) < 2 else sys.argv[1]


def operators(graph: gs.Graph) -> list[str]:
    """List the operators of a graph and its bodies."""
    return [node.op for part in (graph, *graph.subgraphs(recursive=True)) for node in part.nodes]


graph = gs.load(MODEL)
print("exported:", sorted({"If", "Loop"}.intersection(operators(graph))))

# Any number of items: the If becomes a Where, the list of sums a scan output; one loop stays, in a form that TensorRT takes.
report = LowerControlFlow()(graph)
gs.save(graph, "any_count.onnx")
print("any count:", sorted({"If", "Loop"}.intersection(operators(graph))))
for entry in report.left:
    print(" ", entry.path, "-", entry.reason)

# Six items: nothing of the control flow is left.
graph = gs.load(MODEL)
report = LowerControlFlow(bind={"count": 6})(graph)
gs.save(graph, "six_items.onnx")
print("six items:", sorted({"If", "Loop"}.intersection(operators(graph))) or "no control flow")

try:
    engine = gs.trt.build(gs.load("six_items.onnx"))
    print("an engine was built")
except gs.MissingExtraError as missing:
    print(f"no engine: {missing.what}")
