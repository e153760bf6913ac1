"""Weights to messages: those that nobody changed as they were read, others from their arrays; large ones apart from the message."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from google.protobuf.unknown_fields import UnknownFieldSet

from onnx_gs.errors import GraphError
from onnx_gs.io import attributes, tensor_data
from onnx_gs.io.fields import put
from onnx_gs.io.writer import Payload
from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.values import LazyValues

#: Arrays with more bytes than this are handed to the file's writer apart from the message.
PAYLOAD = 1024


class WeightWriter:
    """Writes weights into messages.

    Args:
        payloads: where weights go that stay out of the message; None to write all into it.
        inline_limit: see ``export_skeleton``.
        payload_from: see ``export_skeleton``.
        keep_places: see ``export_skeleton``.
    """

    def __init__(
        self, payloads: list[Payload] | None = None, *, inline_limit: int = 0, payload_from: int = PAYLOAD, keep_places: bool = False
    ) -> None:
        """Keep what decides where weights go."""
        self.payloads = payloads
        self.inline_limit = inline_limit
        self.payload_from = payload_from
        self.keep_places = keep_places

    def write(self, tensor: Any, target: Any) -> None:
        """Write a constant, or a default of an input, into a ``TensorProto`` or ``SparseTensorProto``."""
        name = tensor._name
        if isinstance(tensor, Constant):
            lazy = None if attributes._converted(tensor) else tensor.lazy
            values = None if lazy is not None else tensor.values
        else:
            lazy = tensor._default if isinstance(tensor._default, LazyValues) else None
            values = tensor._default
        doc = tensor._doc if isinstance(tensor, Constant) else None
        if lazy is not None:
            self._original(lazy, target, name, doc)
            return
        assert isinstance(values, np.ndarray)
        converted = tensor._export_dtype if isinstance(tensor, Constant) else None
        self._array(values, converted, target, name)
        former = tensor._source if tensor._source is not None else getattr(tensor._origin, "_source", None)
        if isinstance(former, onnx.TensorProto):
            put(target, "doc_string", former.doc_string)
            if "metadata_props" in target.DESCRIPTOR.fields_by_name:
                target.metadata_props.extend(former.metadata_props)
        if doc is not None:
            put(target, "doc_string", doc)

    def _original(self, lazy: LazyValues, target: Any, name: str, doc: str | None) -> None:
        source, region = lazy._source, lazy._region
        if not isinstance(source, type(target)):
            raise GraphError(f"tensor '{name}' holds a {type(source).__name__}, which is no {type(target).__name__}")
        if tensor_data.is_sparse(source):
            regions = region if isinstance(region, tuple) else (region, None)
            target.CopyFrom(source)
            named = target.values
            for part, stored in ((target.values, regions[0]), (target.indices, regions[1])):
                if stored is not None:
                    self._from_file(part, stored)
        else:
            self._copy_weight(source, target, region)
            named = target
        put(named, "name", name)
        if doc is not None:
            put(named, "doc_string", doc)

    def _copy_weight(self, source: Any, target: Any, region: Any) -> None:
        if region is not None:
            target.CopyFrom(source)
            self._from_file(target, region)
        elif self.payloads is not None and source.ByteSize() > self.payload_from and source.HasField("raw_data") and _is_plain(source):
            target.Clear()
            for field, value in source.ListFields():
                if field.name == "raw_data":
                    continue
                if isinstance(value, (int, str, bytes)):
                    setattr(target, field.name, value)
                elif hasattr(value, "CopyFrom") and not hasattr(value, "extend"):
                    getattr(target, field.name).CopyFrom(value)
                else:
                    getattr(target, field.name).extend(value)
            raw = source.raw_data
            self.payloads.append(Payload(target, raw, len(raw)))
        else:
            target.CopyFrom(source)

    def _from_file(self, target: Any, region: Any) -> None:
        if self.payloads is None or region.length <= self.inline_limit:
            tensor_data.bare(target)
            target.raw_data = region.read()
            return
        if not self.keep_places:
            tensor_data.bare(target)
        target.ClearField("raw_data")
        self.payloads.append(Payload(target, region, region.length))

    def _array(self, values: np.ndarray[Any, Any], converted: Any, target: Any, name: str) -> None:
        known = tensor_data.known_of(values, name)
        wanted = dtypes.require(converted) if converted is not None else known
        tensor_data.check_supported(wanted)
        if wanted is not known:
            values = tensor_data.cast(values, wanted, name)
        target.Clear()
        if self.payloads is None or wanted is dtypes.STRING or wanted.nbytes(values.size) <= self.payload_from:
            tensor_data.write(target, values, wanted, name)
            return
        target.name = name
        target.data_type = wanted.number
        target.dims.extend(values.shape)
        self.payloads.append(Payload(target, tensor_data.stored(values, wanted), wanted.nbytes(values.size)))


def _is_plain(weight: Any) -> bool:
    """Say whether a weight has nothing but fields that this version knows, and its bytes in the message."""
    return not weight.external_data and not len(UnknownFieldSet(weight))
