"""Running graphs: ONNX Runtime behind a protocol, exact in-process kernels, comparison of results."""
