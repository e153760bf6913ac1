"""The command ``onnx-gs``: thin; a command parses, calls one function, prints one report."""
