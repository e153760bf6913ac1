"""Tensors: the edges of a graph, computed (``Variable``) or stored (``Constant``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import GraphTypeError
from onnx_gs.ir import dtypes, source
from onnx_gs.ir.synchronized_list import SynchronizedList, edge_log, linked
from onnx_gs.ir.types import ValueType
from onnx_gs.ir.values import LazyValues, SparseValues  # noqa: F401 - scripts import SparseValues from here

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_gs.ir.node import Node

_UNREAD: Any = object()  # a field that is still in the source message
_SHAPE_NOT_GIVEN: Any = object()
_new: Any = object.__new__
_new_list: Any = SynchronizedList.__new__


class Tensor:
    """A value of a graph: what its producer computes, or what a file stores. Abstract; see ``Variable`` and ``Constant``.

    ``inputs`` are the nodes that produce it (normally one), ``outputs`` the nodes that read it, those inside bodies included.
    Two tensors are ``==`` when they have the same name, so tensors are unhashable; for identity use ``is`` or ``id()``.
    """

    DYNAMIC = -1

    __slots__ = (
        "__dict__", "__weakref__", "_dtype", "_inputs", "_name", "_outputs", "_shape", "_source", "_type", "_values",
    )  # fmt: skip

    # What few tensors have is kept in ``__dict__`` where it is set: a graph of many tensors is then made, copied and read faster.
    _default: Any = None
    _doc: Any = None
    _export_dtype: Any = None
    _location: Any = None
    _origin: Any = None
    _value_type: Any = None
    _is_node = False

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refuse: only the two kinds of tensor can be made.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Tensor is abstract; make a Variable or a Constant")

    def _start(self, name: str) -> None:
        self._name = name
        self._inputs = linked(self, "inputs")
        self._outputs = linked(self, "outputs")
        self._source = None
        self._values = None
        self._dtype = None
        self._shape = None
        self._type = "tensor_type"

    def __getattr__(self, name: str) -> Any:
        """Make what bulk builders left out: an empty list of links, or a field of the other kind of tensor.

        Raises:
            AttributeError: tensors have no such attribute.
        """
        if name in {"_inputs", "_outputs"}:
            made: Any = linked(self, name[1:])
        elif name == "_values" and isinstance(self, Constant) and self._source is not None:
            made = LazyValues(self._source)
        elif name in {"_dtype", "_shape", "_type", "_values", "_source"}:
            made = None
        else:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        setattr(self, name, made)
        return made

    # -- fields -----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The tensor's name; empty for an omitted optional input or output."""
        return self._name

    @name.setter
    def name(self, new: str) -> None:
        self._name = new
        edge_log.add((new,))

    @property
    def inputs(self) -> SynchronizedList[Node]:
        """The nodes that produce this tensor."""
        return self._inputs

    @inputs.setter
    def inputs(self, new: Iterable[Node]) -> None:
        if new is not self._inputs:
            self._inputs[:] = new

    @property
    def outputs(self) -> SynchronizedList[Node]:
        """The nodes that read this tensor, a node twice where it reads it twice."""
        return self._outputs

    @outputs.setter
    def outputs(self, new: Iterable[Node]) -> None:
        if new is not self._outputs:
            self._outputs[:] = new

    @property
    def doc_string(self) -> str:
        """The note that the model carries about this value."""
        if self._doc is None:
            message = self._source if self._source is not None else self._values if self._origin is None else self._origin
            self._doc = "" if message is None or isinstance(message, np.ndarray) else source.codec().value_doc(message)
        return str(self._doc)

    @doc_string.setter
    def doc_string(self, new: str) -> None:
        self._doc = new

    # -- walking ----------------------------------------------------------------------------------

    def i(self, tensor_idx: int = 0, producer_idx: int = 0) -> Tensor:
        """Give an input tensor of a producer: ``self.inputs[producer_idx].inputs[tensor_idx]``."""
        return self.inputs[producer_idx].inputs[tensor_idx]

    def o(self, consumer_idx: int = 0, tensor_idx: int = 0) -> Tensor:
        """Give an output tensor of a consumer: ``self.outputs[consumer_idx].outputs[tensor_idx]``."""
        return self.outputs[consumer_idx].outputs[tensor_idx]

    def is_empty(self) -> bool:
        """Say whether this stands for an omitted optional input or output, which has an empty name."""
        return self._name == ""

    # -- kinds ------------------------------------------------------------------------------------

    def to_constant(
        self, values: np.ndarray[Any, Any] | np.generic | LazyValues, data_location: int | None = None, export_dtype: Any = None
    ) -> Constant:
        """Turn this very object into a ``Constant``; name and links stay, so every reader sees it.

        A producer stays linked until ``inputs.clear()`` is called.

        Args:
            values: an array, a numpy scalar, or lazy values.
            data_location: an ``onnx.TensorProto.DataLocation`` number, or None.
            export_dtype: the element type that the exported tensor gets, converted by the rules of ONNX ``Cast``.

        Raises:
            GraphTypeError: ``values`` is neither an array nor lazy values, or ``export_dtype`` is no element type.

        Example:
            >>> x = Variable("x", np.float32, (2,))
            >>> x.to_constant(np.zeros(2, np.float32)).shape
            (2,)
        """
        if isinstance(values, np.generic):
            values = np.asarray(values)  # arithmetic on an array without axes gives a scalar
        _check_values(self._name, values)
        exported = None if export_dtype is None else _checked_export(export_dtype)
        self._hold(values, data_location, exported)
        return self  # type: ignore[return-value]

    def _hold(self, values: np.ndarray[Any, Any] | LazyValues, data_location: int | None = None, export_dtype: Any = None) -> None:
        """Become a constant of values that need no check."""
        self.__class__ = Constant
        self._values = values
        self._origin = self._source = self._default = None
        self._location = data_location
        self._export_dtype = export_dtype

    def to_variable(self, dtype: Any = None, shape: Any = _SHAPE_NOT_GIVEN) -> Variable:
        """Turn this very object into a ``Variable``; name and links stay.

        Args:
            dtype: element type; None keeps the type that the tensor has (a constant's ``export_dtype``).
            shape: dims; by default ``[]``, a scalar, as scripts expect.
        """
        kept = dtype if dtype is not None else getattr(self, "export_dtype", None) or self.dtype
        self.__class__ = Variable
        self._values = self._origin = self._location = self._export_dtype = self._source = self._value_type = None
        self._dtype = kept
        self._shape = [] if shape is _SHAPE_NOT_GIVEN else shape
        self._type = "tensor_type"
        return self  # type: ignore[return-value]

    def copy(self) -> Tensor:
        """Give a tensor of the same name and contents without links."""
        raise NotImplementedError

    def __copy__(self) -> Tensor:
        """Give ``copy()``."""
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Copy the tensor and its array, without links."""
        new = self.copy()
        if isinstance(new._values, np.ndarray):
            new._values = new._values.copy()
            new._origin = None if new._values.flags.writeable and self._changed() else new._origin
        memo[id(self)] = new
        return new

    def _changed(self) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tensor without its links; weights on disk as path and offset."""
        fields = {f: getattr(self, f) for f in self.__class__._PICKLED}
        return (_unpickle_tensor, (type(self), fields))

    _PICKLED = (
        "_name", "_source", "_default", "_values", "_origin", "_location", "_export_dtype", "_type", "_value_type", "_doc", "_shape", "_dtype",
    )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Compare by name only; an object of another kind is unequal."""
        return isinstance(other, Tensor) and self._name == other._name

    def __str__(self) -> str:
        """Show kind, name, shape and dtype; never reads weights."""
        return f"{type(self).__name__} ({self._name}): (shape={_shown(self.shape)}, dtype={_dtype_name(self.dtype)})"

    def __repr__(self) -> str:
        """Show kind, name, shape and dtype."""
        return str(self)

    # Both kinds have these; here for the type checker and for tensors taken as such.
    dtype: Any
    shape: Any
    _dtype: Any
    _shape: Any
    _type: Any
    _values: Any
    _source: Any


_stored_values = vars(Tensor)["_values"].__get__  # the slot alone, without making what is not there


def _shown(shape: Any) -> Any:
    return tuple(shape) if isinstance(shape, (list, tuple)) and not isinstance(shape, list) else shape


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, (int, np.integer)) and not isinstance(dtype, bool):
        found = dtypes.find(dtype)
        return found.name if found else str(dtype)
    found = dtypes.find(dtype)
    if found is None or isinstance(dtype, dtypes.DataType):
        return str(dtype)
    return str(found.numpy if found is dtypes.STRING else np.dtype(dtype))


def _check_values(name: str, values: Any) -> None:
    if not isinstance(values, (np.ndarray, LazyValues)):
        raise GraphTypeError(
            f"values of constant '{name}' are a {type(values).__name__}",
            fix="give a numpy array (np.array(...)), LazyValues or SparseValues",
        )


def _checked_export(dtype: Any) -> Any:
    found = dtypes.find(dtype)
    if found is None or found is dtypes.STRING:
        raise GraphTypeError(f"export_dtype {dtype!r} is no numeric ONNX type", fix="give a numpy or ml_dtypes type, or an onnx.TensorProto number")
    source.check_supported(found)
    return dtype


class Variable(Tensor):
    """A tensor that is computed, or given by the caller.

    Args:
        name: its name; empty for an omitted optional input or output.
        dtype: element type: a numpy or ml_dtypes type, or an ``onnx.TensorProto`` number; None if unknown. Kept as given.
        shape: dims: ints, names of symbolic dims, or None for an unknown dim; None as a whole for an unknown rank. Kept as given.
        type: the kind of value: ``tensor_type``, ``sequence_type``, ``map_type``, ``optional_type``, ``opaque_type``, ``sparse_tensor_type``.

    Example:
        >>> Variable("x", np.float32, ("batch", 3))
        Variable (x): (shape=('batch', 3), dtype=float32)
    """

    __slots__ = ()

    def __init__(self, name: str, dtype: Any = None, shape: Any = None, type: str = "tensor_type") -> None:  # noqa: A002 - the contract's name
        """Make an unlinked variable."""
        self._start(name)
        self._dtype = dtype
        self._shape = shape
        self._type = type

    @staticmethod
    def empty() -> Variable:
        """Make a variable with an empty name, which stands for an omitted optional input or output."""
        return Variable("")

    def copy(self) -> Variable:
        """Give a variable of the same name, type and notes without links."""
        new: Variable = _new(type(self))  # slot by slot: copies of whole graphs spend their time here
        new._name = self._name
        new._source = self._source
        new._dtype = self._dtype
        new._type = self._type
        shape = self._shape
        new._shape = list(shape) if isinstance(shape, list) else shape
        links = new._inputs = _new_list(SynchronizedList)
        links.parent_obj = new
        links.field_name = "inputs"
        links = new._outputs = _new_list(SynchronizedList)
        links.parent_obj = new
        links.field_name = "outputs"
        extra = self.__dict__
        if extra:
            new.__dict__.update(extra)
        return new

    def to_constant(  # type: ignore[override]  # the order that scripts know, in which a Constant differs
        self, values: np.ndarray[Any, Any] | np.generic | LazyValues, export_dtype: Any = None, data_location: int | None = None
    ) -> Constant:
        """Turn this very object into a ``Constant``; name and links stay.

        As ``Tensor.to_constant``, with the last two arguments the other way round.
        """
        return super().to_constant(values, data_location, export_dtype)

    def _read(self) -> None:
        found = source.codec().value_type(self._source)
        kind = found.kind if found is not None else "tensor_type"
        leaf = found.leaf() if found is not None else ValueType()
        if self._dtype is _UNREAD:
            self._dtype = leaf.dtype
        if self._shape is _UNREAD:
            self._shape = leaf.shape if leaf.kind in {"tensor_type", "sparse_tensor_type"} else None
        if self._type is _UNREAD:
            self._type = kind
            if kind != "tensor_type":
                self._value_type = found

    @property
    def dtype(self) -> Any:
        """The element type, as given or as the model says; None if unknown. For bfloat16, float8 and float4 of an import, the enum number."""
        if self._dtype is _UNREAD:
            self._read()
        return self._dtype

    @dtype.setter
    def dtype(self, new: Any) -> None:
        self._forget_nested()
        self._dtype = new

    @property
    def shape(self) -> Any:
        """The dims, as given or as the model says; None for an unknown rank."""
        if self._shape is _UNREAD:
            self._read()
        return self._shape

    @shape.setter
    def shape(self, new: Any) -> None:
        self._forget_nested()
        self._shape = new

    @property
    def type(self) -> str:
        """The name of the ``TypeProto`` field: ``tensor_type``, ``sequence_type`` and so on."""
        if self._type is _UNREAD:
            self._read()
        return str(self._type)

    @type.setter
    def type(self, new: str) -> None:
        self._forget_nested()
        self._type = new

    def _forget_nested(self) -> None:
        if self._type is _UNREAD or self._dtype is _UNREAD or self._shape is _UNREAD:
            self._read()
        if self._value_type is not None:
            self._value_type = None

    @property
    def value_type(self) -> ValueType:
        """The whole type, nested; assign to it to give a variable a sequence, optional or map type."""
        if self._type is _UNREAD:
            self._read()
        if self._value_type is not None:
            return self._value_type  # type: ignore[no-any-return]
        tensor = ValueType("tensor_type", self.dtype, self.shape)
        if self.type in {"sequence_type", "optional_type"}:
            return ValueType(self.type, element=tensor)
        return ValueType(self.type, self.dtype, self.shape)

    @value_type.setter
    def value_type(self, new: ValueType) -> None:
        leaf = new.leaf()
        self._forget_nested()
        self._dtype, self._shape, self._type = leaf.dtype, leaf.shape, new.kind
        self._value_type = None if new.kind == "tensor_type" else new

    @property
    def default(self) -> LazyValues | np.ndarray[Any, Any] | None:
        """The value that a graph input takes when the caller gives none (an initializer of the input's name, IR 4 and later); else None."""
        return self._default  # type: ignore[no-any-return]

    @default.setter
    def default(self, new: LazyValues | np.ndarray[Any, Any] | None) -> None:
        if new is not None:
            _check_values(self._name, new)
        self._default = new

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the variable without its links."""
        self.value_type
        _ = self.dtype, self.shape, self.type
        return super().__reduce__()


class Constant(Tensor):
    """A tensor whose values are stored in the model.

    Args:
        name: its name.
        values: a numpy array, or lazy values, which are read on first use.
        data_location: an ``onnx.TensorProto.DataLocation`` number: where the values came from.
        export_dtype: element type of the exported tensor, if it shall differ from ``dtype``; converted by the rules of ONNX ``Cast``.

    Example:
        >>> Constant("w", np.ones((2, 2), np.float32)).dtype
        dtype('float32')
    """

    __slots__ = ()

    _location: Any = _UNREAD

    def __init__(self, name: str, values: np.ndarray[Any, Any] | LazyValues, data_location: int | None = None, export_dtype: Any = None) -> None:
        """Make an unlinked constant.

        Raises:
            GraphTypeError: ``values`` is no array, or ``export_dtype`` no element type.
        """
        _check_values(name, values)
        exported = None if export_dtype is None else _checked_export(export_dtype)
        self._start(name)
        self._values = values
        self._location = data_location
        if exported is not None:
            self._export_dtype = exported

    def copy(self) -> Constant:
        """Give a constant of the same name, values and notes without links; lazy values are shared unread."""
        new: Constant = _new(type(self))
        new._name = self._name
        new._source = self._source
        try:  # noqa: SIM105 - contextlib.suppress would take longer than the rest
            new._values = _stored_values(self)
        except AttributeError:  # an import that nobody touched: both make their lazy values of the source when they are asked
            pass
        links = new._outputs = _new_list(SynchronizedList)
        links.parent_obj = new
        links.field_name = "outputs"
        extra = self.__dict__
        if extra:
            new.__dict__.update(extra)
        return new

    def peek(self) -> np.ndarray[Any, Any]:
        """Give the numbers for a look that keeps none of them; lazy values stay unread."""
        return self._values.peek() if isinstance(self._values, LazyValues) else self._values

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The numbers. Lazy values are read here and nowhere else; those of a file are read-only, and of a large one mapped."""
        if isinstance(self._values, LazyValues):
            self._origin = self._values
            self._values = self._values.load()
        return self._values  # type: ignore[no-any-return]

    @values.setter
    def values(self, new: np.ndarray[Any, Any] | LazyValues) -> None:
        former = self._values if self._origin is None else self._origin
        if self._source is None and isinstance(former, LazyValues):
            self._source = former._source  # notes and metadata stay
        if isinstance(new, (np.generic, int, float, list, tuple)):
            new = np.asarray(new)  # arithmetic on an array without axes gives a scalar
        self._values = new
        self._origin = None
        self._location = None

    @property
    def lazy(self) -> LazyValues | None:
        """The lazy values that this constant still stands for, read or not; None once it got others."""
        if isinstance(self._values, LazyValues):
            return self._values
        if self._origin is not None and not self._changed():
            return self._origin  # type: ignore[no-any-return]
        return None

    def _changed(self) -> bool:
        values = self._values
        if not isinstance(values, np.ndarray) or self._origin is None or not values.flags.writeable:
            return False
        fresh = self._origin.load()
        if fresh.dtype != values.dtype or fresh.shape != values.shape:
            return True
        if values.dtype == object:
            return list(fresh.flat) != list(values.flat)
        return bool(np.ascontiguousarray(fresh).tobytes() != np.ascontiguousarray(values).tobytes())

    @property
    def dtype(self) -> Any:
        """The element type of the values; lazy ones are not read for it."""
        return self._values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values; lazy ones are not read for it."""
        return tuple(self._values.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values as an array, dense; lazy ones are not read for it."""
        return int(self._values.nbytes)

    @property
    def type(self) -> str:
        """The kind of value: a tensor."""
        return "tensor_type"

    @property
    def data_location(self) -> int | None:
        """Where the values came from: an ``onnx.TensorProto.DataLocation`` number, or None."""
        if self._location is _UNREAD:
            former = self._values if self._origin is None else self._origin
            self._location = source.codec().data_location(former._source) if isinstance(former, LazyValues) else None
        return self._location  # type: ignore[no-any-return]

    @data_location.setter
    def data_location(self, new: int | None) -> None:
        self._location = new

    @property
    def export_dtype(self) -> Any:
        """The element type of the exported tensor: what was set, else ``dtype``."""
        return self._export_dtype if self._export_dtype is not None else self.dtype

    @export_dtype.setter
    def export_dtype(self, new: Any) -> None:
        self._export_dtype = None if new is None else _checked_export(new)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constant without its links."""
        _ = self.data_location
        return super().__reduce__()

    def __repr__(self) -> str:
        """Show the summary and then the array, or a summary of lazy values; never reads weights."""
        return f"{self}\n{self._values}"


def _unpickle_tensor(kind: type[Tensor], fields: dict[str, Any]) -> Tensor:
    new: Tensor = object.__new__(kind)
    new._start("")
    for field, value in fields.items():
        setattr(new, field, value)
    return new
