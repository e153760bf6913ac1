"""Running graphs: ONNX Runtime as the oracle, exact in-process kernels, comparison of results."""
