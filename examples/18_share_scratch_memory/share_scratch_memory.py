"""Two execution contexts in two threads that lend each other one buffer of scratch memory; skipped where no engine can run."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import onnx_gs as gs
from onnx_gs.trt.cuda import device_count

if gs.trt.installed() is None:
    print("skipped: TensorRT is not installed")
elif device_count() == 0:
    print("skipped: no NVIDIA GPU here, and an engine runs on nothing else")
else:
    x, y = gs.Variable("x", np.float32, ("batch", 256)), gs.Variable("y", np.float32, ("batch", 256))
    graph = gs.Graph([gs.Node("Softmax", inputs=[x], outputs=[y])], [x], [y], opset=17)
    try:
        engine = gs.trt.build(graph, dims={"batch": (1, 8, 64)})
        with gs.trt.Runner(engine, scratch="shared") as run:

            def job(rows: int) -> float:
                """Run in this thread's own context, and give the largest error."""
                feed = np.random.default_rng(rows).standard_normal((rows, 256)).astype(np.float32)
                wanted = np.exp(feed) / np.exp(feed).sum(axis=1, keepdims=True)
                return float(np.abs(run({"x": feed})["y"] - wanted).max())

            with ThreadPoolExecutor(2) as threads:
                print("largest error:", max(threads.map(job, range(1, 65))))
            print("scratch for one context:", run.stats()["scratch"], "bytes; lent", run.scratch.lent, "times")
    except gs.TensorRTError as refused:
        print(f"skipped: {refused.what}")
