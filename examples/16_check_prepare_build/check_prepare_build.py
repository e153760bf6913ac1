"""From a model that TensorRT refuses to an engine: see what is in the way, prepare it, build it."""

import sys

import onnx_gs as gs

MODEL = "sum_even.onnx" if len(sys.argv) < 2 else sys.argv[1]

graph = gs.load(MODEL)
found = gs.trt.check(graph)
print(f"{MODEL}: {len(found.blockers)} in the way of {found.target}")
for blocker in found.blockers:
    print(f"  {blocker.id}: {blocker.path}")
    print(f"    remedy: {blocker.remedy}")

report = gs.trt.prepare(graph, str(found.target))
print(f"prepared: {len(report.rewritten)} rewrites, ready: {report.shared['readiness'].ready}")
gs.save(graph, "ready.onnx")

try:
    # The range of the dynamic dim: kernels are chosen for the middle size.
    engine = gs.trt.build(graph, "sum_even.engine", dims={"count": (1, 6, 64)})
except gs.MissingExtraError as missing:
    print(f"no engine: {missing.what}")
else:
    print(f"an engine for {engine.report.profiles[0]}, scratch memory {engine.report.memory['scratch']} bytes")
