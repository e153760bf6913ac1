"""Edit ONNX models: load, change, fold, lower, save."""
