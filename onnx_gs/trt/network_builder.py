"""Networks by TensorRT's layer API: loops, conditionals, and ONNX operators between them.

The ONNX parser covers most models; this is for control flow that it does not take, or pads without saying so, and for networks written by hand.
Tensors are TensorRT's own ``ITensor`` objects, so any layer of the API can be mixed in through ``builder.network``.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from onnx_gs.errors import GraphError, GraphTypeError, GraphValueError, OnnxGsError, TensorRTError
from onnx_gs.ir import dtypes
from onnx_gs.ops import schema
from onnx_gs.ops.use import spelled_range
from onnx_gs.trt import model_source, parser_errors, tensorrt
from onnx_gs.trt.description import Description, Flow, describe_network
from onnx_gs.trt.operators import OPERATORS, Unlowered
from onnx_gs.trt.session import Session, first_error
from onnx_gs.trt.tensorrt import trt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from onnx_gs.ir import Graph
    from onnx_gs.trt.engine import Engine

#: ONNX element type → TensorRT's.
TYPES = {
    "FLOAT": "FLOAT", "FLOAT16": "HALF", "BFLOAT16": "BF16", "INT32": "INT32", "INT64": "INT64", "BOOL": "BOOL", "INT8": "INT8", "UINT8": "UINT8",
}  # fmt: skip

_NEWEST = 1 << 20  # a version beyond all: what is found for it is the newest definition


class NetworkBuilder:
    """Builds a TensorRT network layer by layer.

    Args:
        gpu_allocator: a ``trt.IGpuAllocator`` for the builder.

    Example:
        >>> from onnx_gs.trt import NetworkBuilder, installed
        >>> if installed():
        ...     net = NetworkBuilder()
        ...     x = net.input("x", "float32", (3,))
        ...     net.output(net.op("Add", x, x), "y")
        ...     print(net.describe().outputs)
        ... else:
        ...     print(('y float 3',))
        ('y float 3',)
    """

    def __init__(self, *, gpu_allocator: Any = None) -> None:
        """Start with an empty network.

        Raises:
            MissingExtraError: no TensorRT is installed.
        """
        tensorrt.require("build a network")
        self._steps = _Steps()
        self.session = Session(gpu_allocator=gpu_allocator, step=self._steps)
        self.network = self.session.network
        self.via = "layers"
        self.reasons: list[str] = []
        self.paths: dict[str, str] = {}
        self._loops: list[LoopBuilder] = []
        self._conditionals: list[ConditionalBuilder] = []
        self._source: model_source.ModelSource | None = None

    # -- tensors and operators ------------------------------------------------------------------------

    def input(self, name: str, dtype: Any, shape: Sequence[int | str | None]) -> trt.ITensor:
        """Add a network input; names and None stand for dynamic dims.

        Raises:
            GraphTypeError: a dim is neither a number, a name, nor None.
            TensorRTError: TensorRT has no such type, or refuses the input.
        """
        for d in shape:
            if d is not None and not isinstance(d, (str, SupportsIndex)):
                raise GraphTypeError(f"input '{name}' has the dim {d!r}", fix="a dim is a whole number, a name, or None")
        sizes = [-1 if d is None or isinstance(d, str) else operator.index(d) for d in shape]
        tensor = self._said(lambda: self.network.add_input(name, trt_type(dtype), sizes), f"input '{name}'")
        for k, d in enumerate(shape):
            if isinstance(d, str):
                tensor.set_dimension_name(k, d)
        return tensor  # type: ignore[no-any-return]

    def constant(self, values: Any, name: str | None = None) -> trt.ITensor:
        """Add a constant; Python floats become float32, ints int64.

        Raises:
            GraphTypeError: these are no numbers.
            TensorRTError: TensorRT has no such type.
        """
        array = _numbers(values)
        if array.dtype == np.float64 and not isinstance(values, np.ndarray):
            array = array.astype(np.float32)
        array = np.array(array, order="C", copy=True)  # a fresh, writable copy: the network points at its memory
        self.session.keep.append(array)
        kind = trt_type(array.dtype)
        weights = trt.Weights(kind, array.ctypes.data, array.size) if array.size else trt.Weights(kind)
        layer = self._said(lambda: self.network.add_constant(array.shape, weights), "a constant")
        if name:
            layer.name = name
        return layer.get_output(0)  # type: ignore[no-any-return]

    def op(self, op: str, *inputs: Any, name: str | None = None, **attributes: Any) -> trt.ITensor:
        """Add an ONNX operator, with its meaning in the newest opset that this package knows for it.

        Args:
            op: the operator, such as ``"Add"``; ``OPERATORS`` lists those there are.
            inputs: tensors, or arrays and numbers, which become constants; None for an omitted one.
            name: name of the layer and its output.
            attributes: the operator's attributes.

        Returns:
            The result.

        Raises:
            GraphValueError: the operator takes another number of inputs, or has no such attribute.
            TensorRTError: the operator is not among them, or TensorRT refuses it.
        """
        lowering = OPERATORS.get(op)
        if lowering is None:
            raise TensorRTError(
                f"operator '{op}' has no lowering to layers", fix=f"use one of {', '.join(sorted(OPERATORS))}, or a layer of builder.network"
            )
        _check_use(op, inputs, attributes)
        for given in inputs:
            if given is not None and not isinstance(given, trt.ITensor):
                _numbers(given)
        try:
            made = self.settled(lambda: lowering(self, list(inputs), attributes), f"operator {op}")
        except Unlowered as why:
            raise TensorRTError(f"operator '{op}' cannot be lowered here: {why}") from None
        if name:
            made.name = name
        return made  # type: ignore[no-any-return]

    def tensor(self, value: Any) -> trt.ITensor:
        """Give a tensor for what may be a tensor, an array or a number."""
        return value if isinstance(value, trt.ITensor) else self.constant(value)

    def output(self, tensor: Any, name: str | None = None) -> None:
        """Make a tensor a network output.

        Raises:
            GraphValueError: another output, or an input, has the name.
        """
        tensor = self.tensor(tensor)
        if name:
            if any(self.network.get_output(k).name == name for k in range(self.network.num_outputs)):
                raise GraphValueError(f"there are two outputs '{name}'", fix="give each a name of its own")
            if tensor.is_network_input or tensor.is_network_output:
                tensor = self.network.add_identity(tensor).get_output(0)
            with tensorrt.listen(quiet=True):
                tensor.name = name
            if tensor.name != name:  # TensorRT only logs that it does not take it
                raise GraphValueError(f"no output can be named '{name}': another tensor is", fix="give it another name")
        self.network.mark_output(tensor)

    def loop(self, name: str | None = None) -> LoopBuilder:
        """Start a loop."""
        made = LoopBuilder(self, name)
        self._loops.append(made)
        return made

    def conditional(self, condition: Any, name: str | None = None) -> ConditionalBuilder:
        """Start a conditional on a bool scalar.

        Raises:
            GraphTypeError: the condition is something else.
        """
        what = f"the condition of conditional '{name}'" if name else "the condition of a conditional"
        made = ConditionalBuilder(self, self.scalar(condition, ("BOOL",), what), name)
        self._conditionals.append(made)
        return made

    def settled(self, call: Callable[[], Any], what: str) -> Any:
        """Add layers, and give the tensor that they make, in which TensorRT finds no fault.

        Raises:
            TensorRTError: it finds one.
        """
        with tensorrt.listen(quiet=True) as heard:
            try:
                made = self._said(call, what)
                made.shape  # TensorRT looks at most of a layer only when its shape is asked for
            except (IndexError, RuntimeError, TypeError, ValueError) as why:
                if isinstance(why, OnnxGsError):
                    raise
                raise TensorRTError(f"TensorRT refuses {what}: {first_error(heard.errors) if heard.errors else why}") from why
        return made

    def scalar(self, value: Any, types: tuple[str, ...], what: str) -> trt.ITensor:
        """Give a tensor that must be a scalar of one of some types, by TensorRT's names of them.

        Raises:
            GraphTypeError: it is none.
        """
        tensor = self.tensor(value)
        if len(tensor.shape) or tensor.dtype.name not in types:
            wanted = " or ".join(name.lower() for name in types)
            raise GraphTypeError(f"{what} is {tensor.dtype.name.lower()} of rank {len(tensor.shape)}", fix=f"it must be a scalar of type {wanted}")
        return tensor

    def _said(self, call: Any, what: str) -> Any:
        """Call TensorRT, and make what it says an error when it gives nothing."""
        with tensorrt.listen(quiet=True) as heard:
            made = call()
        if made is None:
            raise TensorRTError(f"TensorRT refuses {what}: {first_error(heard.errors)}")
        return made

    # -- whole graphs ---------------------------------------------------------------------------------

    @classmethod
    def from_graph(cls, graph: Graph, *, fallback: bool = True, gpu_allocator: Any = None) -> NetworkBuilder:
        """Lower a graph to layers: its ``Loop``, ``Scan`` and ``If`` with the operators of ``OPERATORS`` around and inside them.

        Args:
            graph: the graph; it is not changed.
            fallback: hand the whole model to the ONNX parser where something in it has no lowering; ``via`` is then ``"parser"`` and
                ``reasons`` say why.
            gpu_allocator: as in the constructor.

        Raises:
            GraphTypeError: it is no graph.
            TensorRTError: something has no lowering and ``fallback`` is off, or the parser refuses the model too.
        """
        from onnx_gs.trt.lowering import lower

        if not hasattr(graph, "nodes"):
            raise GraphTypeError(f"a {type(graph).__name__} is no graph", fix="load the model: gs.load(path)")
        made = cls(gpu_allocator=gpu_allocator)
        try:
            made.paths = lower(graph, made)
        except (Unlowered, OnnxGsError) as why:
            made.session.close()
            if fallback:
                return cls._parsed(graph, why.what if isinstance(why, OnnxGsError) else str(why), gpu_allocator)
            if isinstance(why, OnnxGsError):
                raise
            raise TensorRTError(f"the graph cannot be lowered to layers: {why}", fix="allow the fallback to the ONNX parser") from None
        return made

    @classmethod
    def _parsed(cls, graph: Graph, reason: str, gpu_allocator: Any) -> NetworkBuilder:
        from onnx_gs.trt.places import NodeIndex

        made = cls(gpu_allocator=gpu_allocator)
        made.via, made.reasons = "parser", [reason]
        index = NodeIndex(graph)
        made.paths = {name: found[0].path for name, found in index.by_name.items()}
        with model_source.opened(graph) as source, tensorrt.listen(quiet=True) as heard:
            made._source = source
            if not made.session.parse(source):
                raise parser_errors.as_error(parser_errors.of_parser(made.session.parser, index), None, heard.errors)
        return made

    # -- what comes of it -----------------------------------------------------------------------------

    def describe(self) -> Description:
        """Describe the network's control flow as TensorRT sees it."""
        return describe_network(self.network, self.paths)

    def check(self) -> None:
        """Refuse what TensorRT would refuse with an internal error, or take with another meaning.

        Raises:
            GraphError: there is no output, a loop has no trip limit, a recurrence no next value, an output stands inside a loop or branch, or a
                branch uses another's values.
        """
        if not self.network.num_outputs:
            raise GraphError("the network has no outputs", fix="say what it computes: builder.output(tensor)")
        for loop in self._loops:
            loop._check()
        if self.via == "parser":
            return
        flow = Flow(self.network)
        inside = {owner: flow.members(owner) for owner in flow.boundary}
        needs = {owner: {source for k in own for source in flow.feeds_from[k]} for owner, own in flow.boundary.items()}
        for owner, own in flow.boundary.items():
            label = f"{'loop' if flow.is_loop(owner) else 'conditional'} '{flow.owners[own[0]].name}'"
            for other, other_own in flow.boundary.items():
                if other != owner and needs[owner] & inside[other] and needs[other] & inside[owner]:
                    raise GraphError(
                        f"{label} and '{flow.owners[other_own[0]].name}' need each other's values", fix="one of them must stand inside the other"
                    )
            for k in inside[owner]:
                for tensor in flow.outputs[k]:
                    if tensor is not None and tensor.is_network_output:
                        raise GraphError(
                            f"network output '{tensor.name}' stands inside {label}", fix="let it leave through an output of the loop or conditional"
                        )
            if not flow.is_loop(owner):
                shared = flow.branch(owner, 0) & flow.branch(owner, 1)
                if shared:
                    names = ", ".join(repr(flow.layers[k].name) for k in sorted(shared))
                    raise GraphError(
                        f"layers {names} of {label} belong to both branches", fix="compute them before the conditional, or once in each branch"
                    )

    def build(self, output: str | os.PathLike[str] | None = None, *, options: Any = None, progress: Any = False, **settings: Any) -> Engine:
        """Build the network; arguments as for ``onnx_gs.trt.build``.

        Raises:
            GraphError: see ``check``.
            TensorRTError: TensorRT refuses the network.
        """
        from onnx_gs.trt.builder import build_network, listener_of, step_of
        from onnx_gs.trt.options import merged
        from onnx_gs.trt.session import interruptible

        self.check()
        chosen = merged(options, settings)
        with interruptible() as interrupted, tensorrt.listen(quiet=True) as heard:
            self._steps.listener = step_of(interrupted, listener_of(progress))
            try:
                return build_network(self.session, output, chosen, heard, interrupted, self._source)
            finally:
                self._steps.listener = None


class _Steps:
    """What the progress monitor calls. It knows no builder: TensorRT's references to the monitor are invisible to Python's collector."""

    def __init__(self) -> None:
        self.listener: Any = None

    def __call__(self, phase: str, parent: str | None, done: int, steps: int) -> bool:
        return self.listener is None or bool(self.listener(phase, parent, done, steps))


class LoopBuilder:
    """One loop under construction; see ``NetworkBuilder.loop``.

    Example:
        A counting loop, ``for (i = j; trips < n; i += k)``::

            loop = net.loop("count")
            loop.count(n)
            i = loop.recurrence(j)
            loop.next(i, net.op("Add", i, k))
            net.output(loop.last(i), "i")
    """

    def __init__(self, builder: NetworkBuilder, name: str | None) -> None:
        """Add the loop."""
        self.builder = builder
        self.loop = builder.network.add_loop()
        if name:
            self.loop.name = name
        self._limits: list[str] = []
        self._recurrences: dict[str, Any] = {}
        self._pending: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The loop's name."""
        return str(self.loop.name)

    def _limit(self, tensor: Any, kind: str) -> None:
        if kind in self._limits:
            raise GraphError(f"loop '{self.name}' has two trip limits of kind {kind}", fix="combine them before the loop")
        self._limits.append(kind)
        self.builder._said(lambda: self.loop.add_trip_limit(tensor, getattr(trt.TripLimit, kind)), f"the trip limit of loop '{self.name}'")

    def count(self, trips: Any) -> None:
        """Run a number of times: an integer scalar from outside the loop.

        Raises:
            GraphTypeError: it is something else.
            GraphError: there is such a limit already.
        """
        trips = np.int32(trips) if isinstance(trips, int) and not isinstance(trips, bool) else trips
        self._limit(self.builder.scalar(trips, ("INT32", "INT64"), f"the trip limit of loop '{self.name}'"), "COUNT")

    def while_(self, condition: Any) -> None:
        """Go on as long as a bool scalar is true: a recurrence of this loop, or computed from its recurrences.

        Raises:
            GraphTypeError: it is something else.
            GraphError: there is such a limit already.
        """
        self._limit(self.builder.scalar(condition, ("BOOL",), f"the condition of loop '{self.name}'"), "WHILE")

    def iterate(self, tensor: Any, axis: int = 0, *, reverse: bool = False) -> trt.ITensor:
        """Give one slice of a tensor a trip.

        Raises:
            GraphValueError: the tensor has no such axis.
        """
        tensor = self.builder.tensor(tensor)
        axis = _axis(axis, len(tensor.shape), f"an iterator of loop '{self.name}'")
        layer = self.builder._said(lambda: self.loop.add_iterator(tensor, axis, reverse), f"an iterator of loop '{self.name}'")
        return layer.get_output(0)  # type: ignore[no-any-return]

    def recurrence(self, initial: Any, name: str | None = None) -> trt.ITensor:
        """Start a loop-carried value; say what it becomes with ``next``."""
        layer = self.builder._said(lambda: self.loop.add_recurrence(self.builder.tensor(initial)), f"a recurrence of loop '{self.name}'")
        if name:
            layer.name = name
        tensor = layer.get_output(0)
        self._recurrences[tensor.name] = layer
        self._pending[tensor.name] = name or tensor.name
        return tensor  # type: ignore[no-any-return]

    def next(self, recurrence: trt.ITensor, value: Any) -> None:
        """Say what a loop-carried value is in the next trip.

        Raises:
            GraphError: the tensor is no recurrence of this loop, or types or shapes differ.
        """
        layer = self._recurrences.get(recurrence.name)
        if layer is None:
            raise GraphError(f"tensor '{recurrence.name}' is no recurrence of loop '{self.name}'", fix="start it with loop.recurrence(initial)")
        value = self.builder.tensor(value)
        # reading both types and shapes settles them: without it a value computed by unary layers only is left untyped (seen in RTX 1.7.1)
        here, there = (recurrence.dtype, tuple(recurrence.shape)), (value.dtype, tuple(value.shape))
        alike = len(here[1]) == len(there[1]) and all(a == b or a < 0 or b < 0 for a, b in zip(here[1], there[1]))
        if here[0] != there[0] or not alike:
            raise GraphError(
                f"recurrence '{recurrence.name}' of loop '{self.name}' starts as {here[0].name} {list(here[1])}, "
                f"and becomes {there[0].name} {list(there[1])}",
                fix="a carried value keeps its type and shape",
            )
        layer.set_input(1, value)
        self._pending.pop(recurrence.name, None)

    def last(self, recurrence: trt.ITensor, name: str | None = None) -> trt.ITensor:
        """Give the final value of a recurrence.

        Raises:
            GraphError: the tensor is something else.
        """
        if recurrence.name not in self._recurrences:
            raise GraphError(
                f"the last value of '{recurrence.name}' is asked for, which is no recurrence of loop '{self.name}'", fix="carry it as a recurrence"
            )
        return self._output(recurrence, "LAST_VALUE", 0, None, name)

    def concatenate(self, tensor: Any, length: Any, axis: int = 0, *, reverse: bool = False, name: str | None = None) -> trt.ITensor:
        """Give one slice a trip, joined along a new axis.

        Args:
            tensor: the slice.
            length: how many there are: an integer scalar from outside the loop. With fewer trips the rest is arbitrary.
            axis: the new axis.
            reverse: the last trip's slice comes first.
            name: name of the result.

        Raises:
            GraphValueError: the result has no such axis.
            GraphTypeError: the length is no integer scalar.
        """
        tensor = self.builder.tensor(tensor)
        axis = _axis(axis, len(tensor.shape) + 1, f"an output of loop '{self.name}'")
        length = np.int32(length) if isinstance(length, int) and not isinstance(length, bool) else length
        rows = self.builder.scalar(length, ("INT32", "INT64"), f"the length of an output of loop '{self.name}'")
        return self._output(tensor, "REVERSE" if reverse else "CONCATENATE", axis, rows, name)

    def _output(self, tensor: trt.ITensor, kind: str, axis: int, length: Any, name: str | None) -> trt.ITensor:
        layer = self.builder._said(lambda: self.loop.add_loop_output(tensor, getattr(trt.LoopOutput, kind), axis), f"an output of loop '{self.name}'")
        if length is not None:
            layer.set_input(1, length)
        made = layer.get_output(0)
        if name:
            made.name = name
        return made  # type: ignore[no-any-return]

    def _check(self) -> None:
        if not self._limits:
            raise GraphError(f"loop '{self.name}' has no trip limit", fix="say how often it runs: loop.count(n) or loop.while_(condition)")
        if self._pending:
            raise GraphError(
                f"recurrence '{next(iter(self._pending.values()))}' of loop '{self.name}' has no next value",
                fix="give it one: loop.next(recurrence, value)",
            )


class ConditionalBuilder:
    """One conditional under construction; see ``NetworkBuilder.conditional``.

    What depends on ``input(x)`` is lazy: it runs only when its branch is taken. Everything else runs always.
    """

    def __init__(self, builder: NetworkBuilder, condition: trt.ITensor, name: str | None) -> None:
        """Add the conditional."""
        self.builder = builder
        self.conditional = builder.network.add_if_conditional()
        if name:
            self.conditional.name = name
        self.conditional.set_condition(condition)
        self._inputs: dict[str, trt.ITensor] = {}

    @property
    def name(self) -> str:
        """The conditional's name."""
        return str(self.conditional.name)

    def input(self, tensor: Any) -> trt.ITensor:
        """Let a tensor in; both branches may use the one input that it gets."""
        tensor = self.builder.tensor(tensor)
        if tensor.name not in self._inputs:
            layer = self.builder._said(lambda: self.conditional.add_input(tensor), f"an input of conditional '{self.name}'")
            self._inputs[tensor.name] = layer.get_output(0)
        return self._inputs[tensor.name]

    def output(self, when_true: Any, when_false: Any, name: str | None = None) -> trt.ITensor:
        """Give the value of whichever branch ran.

        Raises:
            GraphError: the branches give different types or ranks.
        """
        when_true, when_false = self.builder.tensor(when_true), self.builder.tensor(when_false)
        if when_true.dtype != when_false.dtype:
            raise GraphError(
                f"the branches of conditional '{self.name}' give {when_true.dtype.name} and {when_false.dtype.name}", fix="cast one of them"
            )
        if len(when_true.shape) != len(when_false.shape):
            raise GraphError(
                f"the branches of conditional '{self.name}' give ranks {len(when_true.shape)} and {len(when_false.shape)}", fix="make the ranks equal"
            )
        layer = self.builder._said(lambda: self.conditional.add_output(when_true, when_false), f"an output of conditional '{self.name}'")
        made = layer.get_output(0)
        if name:
            made.name = name
        return made  # type: ignore[no-any-return]


def _numbers(values: Any) -> np.ndarray[Any, Any]:
    """Give an array of what a script gives for one.

    Raises:
        GraphTypeError: these are no numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind in "OUSMm":
        raise GraphTypeError(f"{values!r:.80} is no tensor, array or number", fix="give one of these")
    return array


def _axis(axis: int, rank: int, what: str) -> int:
    """Give a non-negative axis.

    Raises:
        GraphValueError: there is none like it.
    """
    if not -rank <= axis < rank:
        raise GraphValueError(f"axis {axis} of {what} is out of range", fix=f"the rank is {rank}")
    return axis % rank


def _check_use(op: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """See that an operator is given what it takes, as ONNX says.

    Raises:
        GraphValueError: it is not.
    """
    known = schema.find(op, _NEWEST)
    if known is None:
        return
    least, most = known.min_inputs, known.max_inputs
    needed = [formal.name for formal, given in zip(known.inputs, inputs) if given is None and not formal.is_optional]
    if not least <= len(inputs) <= most or needed:
        what = f"operator '{op}' is given {sum(i is not None for i in inputs)} inputs"
        raise GraphValueError(what, fix=f"it takes {spelled_range(least, most)}")
    for name in attributes:
        if name not in known.attributes:
            raise GraphValueError(f"operator '{op}' has no attribute '{name}'", fix=f"it has {', '.join(sorted(known.attributes)) or 'none'}")


def trt_type(dtype: Any) -> trt.DataType:
    """Give TensorRT's type for an ONNX element type, in any spelling that ``ir.dtypes`` knows.

    Raises:
        GraphTypeError: it is no element type.
        TensorRTError: TensorRT has none like it.
    """
    found = dtypes.find(dtype)
    if found is None:
        raise GraphTypeError(f"{dtype!r} is no ONNX element type")
    name = TYPES.get(found.name)
    if name is None:
        raise TensorRTError(
            f"TensorRT has no type for {found.name.lower()} inside a network", fix="use float32, float16, bfloat16, int32, int64 or bool"
        )
    return getattr(trt.DataType, name)  # type: ignore[no-any-return]
