"""Protobuf, files and text: the only layer that knows bytes."""

from onnx_gs.io import codec

codec.install()
