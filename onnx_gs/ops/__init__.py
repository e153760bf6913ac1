"""What the ONNX specification says about operators."""
