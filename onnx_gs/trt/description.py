"""What TensorRT made of the control flow: its loops and conditionals, what is inside them, and the ONNX nodes they came from."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphTypeError
from onnx_gs.trt import model_source, parser_errors, tensorrt
from onnx_gs.trt.engine import Engine
from onnx_gs.trt.layers import CONDITIONAL_TYPES, LOOP_TYPES, layers, onnx_nodes
from onnx_gs.trt.places import NodeIndex
from onnx_gs.trt.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx_gs.trt.tensorrt import trt


@dataclass(frozen=True)
class TripLimit:
    """What ends a loop: ``COUNT`` (a number of trips) or ``WHILE`` (a bool that says whether to go on)."""

    kind: str
    tensor: str


@dataclass(frozen=True)
class Recurrence:
    """A loop-carried value: ``initial`` comes from outside, ``next`` from the trip before."""

    tensor: str
    initial: str
    next: str


@dataclass(frozen=True)
class Iteration:
    """A tensor taken slice by slice along ``axis``."""

    tensor: str
    source: str
    axis: int
    reverse: bool


@dataclass(frozen=True)
class LoopOutput:
    """What leaves a loop: ``LAST_VALUE``, or one slice a trip along ``axis`` (``CONCATENATE``, ``REVERSE``), ``length`` of them."""

    tensor: str
    source: str
    kind: str
    axis: int | None = None
    length: str | None = None


@dataclass(frozen=True)
class Loop:
    """One loop.

    Attributes:
        name: TensorRT's name of it.
        onnx: the path of the ONNX node it came from.
        layers: names of the layers that run once a trip, those of nested constructs included.
        inside: the loops and conditionals directly inside.
    """

    name: str
    onnx: str | None
    trip_limits: tuple[TripLimit, ...]
    recurrences: tuple[Recurrence, ...]
    iterators: tuple[Iteration, ...]
    outputs: tuple[LoopOutput, ...]
    layers: tuple[str, ...]
    inside: tuple[Loop | Conditional, ...] = ()


@dataclass(frozen=True)
class ConditionalOutput:
    """A value that leaves a conditional, and where it comes from in each branch."""

    tensor: str
    when_true: str
    when_false: str


@dataclass(frozen=True)
class Conditional:
    """One conditional.

    Attributes:
        name: TensorRT's name of it.
        onnx: the path of the ONNX node it came from.
        condition: the deciding tensor.
        inputs: what enters, as (inner name, outer name).
        lazy_true: layers that run only when the condition is true: they depend on a conditional input, or are in a loop or conditional that does.
        lazy_false: likewise when it is false.
        eager: layers that serve nothing but this conditional and still run always, as they depend on none of its inputs.
        inside: the loops and conditionals directly inside.
    """

    name: str
    onnx: str | None
    condition: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[ConditionalOutput, ...]
    lazy_true: tuple[str, ...]
    lazy_false: tuple[str, ...]
    eager: tuple[str, ...]
    inside: tuple[Loop | Conditional, ...] = ()


@dataclass(frozen=True)
class Layer:
    """One layer: name, type, and the ONNX nodes it came from."""

    name: str
    type: str
    onnx: tuple[str, ...] = ()


@dataclass
class Description:
    """A network or engine as TensorRT sees it.

    Attributes:
        constructs: the outermost loops and conditionals.
        layers: every layer, in order.
        inputs: name, type and shape of each input.
        outputs: likewise.
        kind: ``"network"`` or ``"engine"``; in an engine the constructs are compiled away and only layers are known.
    """

    constructs: tuple[Loop | Conditional, ...] = ()
    layers: tuple[Layer, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kind: str = "network"

    def walk(self) -> Iterator[tuple[int, Loop | Conditional]]:
        """Give every loop and conditional with its depth, outer before inner."""
        pending = deque((0, c) for c in self.constructs)
        while pending:
            depth, construct = pending.popleft()
            yield depth, construct
            pending.extendleft((depth + 1, c) for c in reversed(construct.inside))

    @property
    def loops(self) -> list[Loop]:
        """Every loop, outer before inner."""
        return [c for _, c in self.walk() if isinstance(c, Loop)]

    @property
    def conditionals(self) -> list[Conditional]:
        """Every conditional, outer before inner."""
        return [c for _, c in self.walk() if isinstance(c, Conditional)]

    def as_dict(self) -> dict[str, Any]:
        """Give plain data, for JSON."""
        found = asdict(self)
        found["constructs"] = [_plain(c) for c in self.constructs]
        return found

    def __str__(self) -> str:
        """Draw the constructs as a tree."""
        lines = [f"{self.kind}: {len(self.layers)} layers, {len(self.loops)} loops, {len(self.conditionals)} conditionals"]
        lines += [f"  input  {text}" for text in self.inputs]
        lines += [f"  output {text}" for text in self.outputs]
        for construct in self.constructs:
            lines += _draw(construct, "")
        if self.kind == "engine":
            lines += [f"  layer  {layer.name} ({layer.type})" for layer in self.layers]
        return "\n".join(lines)


def _plain(construct: Loop | Conditional) -> dict[str, Any]:
    plain = {k: v for k, v in asdict(construct).items() if k != "inside"}
    return {"kind": type(construct).__name__.lower(), **plain, "inside": [_plain(c) for c in construct.inside]}


def _draw(construct: Loop | Conditional, margin: str) -> list[str]:
    kind = "loop" if isinstance(construct, Loop) else "conditional"
    origin = f"  from {construct.onnx}" if construct.onnx else ""
    rows = _loop_rows(construct) if isinstance(construct, Loop) else _conditional_rows(construct)
    lines = [f"{margin}{kind} '{construct.name}'{origin}"]
    lines += [f"{margin}  {row}" for row in rows]
    for inner in construct.inside:
        lines += _draw(inner, margin + "  | ")
    return lines


def _loop_rows(loop: Loop) -> list[str]:
    rows = [f"trip limit {limit.kind:<6} {limit.tensor}" for limit in loop.trip_limits]
    rows += [f"recurrence        {r.tensor}: first {r.initial}, then {r.next}" for r in loop.recurrences]
    rows += [f"iterator          {i.tensor}: {i.source} along axis {i.axis}, {'backward' if i.reverse else 'forward'}" for i in loop.iterators]
    for output in loop.outputs:
        how = f"{output.kind} of {output.source}"
        rows.append(
            f"output            {output.tensor}: {how}" + (f" on axis {output.axis}, length {output.length}" if output.kind != "LAST_VALUE" else "")
        )
    rows.append(f"each trip runs    {_names(loop.layers)}")
    return rows


def _conditional_rows(conditional: Conditional) -> list[str]:
    rows = [f"condition         {conditional.condition}"]
    rows += [f"input             {inner} from {outer}" for inner, outer in conditional.inputs]
    rows += [f"output            {o.tensor}: {o.when_true} if true, else {o.when_false}" for o in conditional.outputs]
    rows.append(f"only if true      {_names(conditional.lazy_true)}")
    rows.append(f"only if false     {_names(conditional.lazy_false)}")
    rows.append(f"always (eager)    {_names(conditional.eager)}")
    return rows


def _names(names: tuple[str, ...], most: int = 8) -> str:
    shown = ", ".join(names[:most]) or "nothing"
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


# -- reading ---------------------------------------------------------------------------------------------


def describe(model: Any, *, parser_flags: tuple[str, ...] = ()) -> Description:
    """Describe what TensorRT makes of a model.

    Args:
        model: a graph, path, bytes or ``onnx.ModelProto``, which is parsed; a TensorRT network; a ``NetworkBuilder``; or an ``Engine`` (needs a
            GPU that it fits).
        parser_flags: flags of the ONNX parser by name.

    Raises:
        TensorRTError: the parser refuses the model, or the engine cannot be loaded here.
        MissingExtraError: no TensorRT is installed.
    """
    tensorrt.require("describe a model")
    if isinstance(model, Engine):
        return _of_engine(model)
    network = getattr(model, "network", model)
    if hasattr(network, "num_layers") and hasattr(network, "get_layer"):
        return describe_network(network, getattr(model, "paths", None))
    with model_source.opened(model) as source, tensorrt.listen(quiet=True) as heard, Session() as session:
        parsed = session.parse(source, parser_flags)
        graph = source.as_graph()
        index = NodeIndex(graph) if graph is not None else None
        if not parsed:
            raise parser_errors.as_error(parser_errors.of_parser(session.parser, index), None, heard.errors)
        paths = {name: found[0].path for name, found in index.by_name.items()} if index is not None else {}
        return describe_network(session.network, paths)


def describe_network(network: trt.INetworkDefinition, paths: dict[str, str] | None = None) -> Description:
    """Describe a TensorRT network.

    Args:
        network: the network.
        paths: the path of the ONNX node by the name that TensorRT gives it.

    Raises:
        GraphTypeError: it is no network.
    """
    if not hasattr(network, "num_layers"):
        raise GraphTypeError(f"a {type(network).__name__} is no model, network or engine")
    flow = Flow(network)
    found = flow.constructs(paths or {})
    return Description(
        found,
        tuple(Layer(layer.name, layer.type.name, tuple(onnx_nodes(layer.metadata))) for layer in flow.layers),
        tuple(_tensor(network.get_input(k)) for k in range(network.num_inputs)),
        tuple(_tensor(network.get_output(k)) for k in range(network.num_outputs)),
    )


def _tensor(tensor: Any) -> str:
    try:
        shape = "x".join("?" if d < 0 else str(d) for d in tensor.shape) or "scalar"
    except (RuntimeError, ValueError):  # the bindings' ways to say that there is no shape, and that the rank is unknown
        shape = "unknown rank"
    return f"{tensor.name} {tensor.dtype.name.lower()} {shape}"


class Flow:
    """A network's layers as a graph: who feeds whom, and what stands inside which construct.

    Nesting follows data flow: a layer is inside a loop when it depends on one of its recurrences or iterators without passing its outputs,
    and inside a branch when a conditional output depends on it and it depends on a conditional input.
    """

    def __init__(self, network: trt.INetworkDefinition) -> None:
        """Read the network once."""
        self.layers = list(layers(network))
        self.inputs = [[layer.get_input(k) for k in range(layer.num_inputs)] for layer in self.layers]
        self.outputs = [[layer.get_output(k) for k in range(layer.num_outputs)] for layer in self.layers]
        self.types = [layer.type.name for layer in self.layers]
        producer = {t.name: k for k, made in enumerate(self.outputs) for t in made if t is not None}
        self.feeds_from = [[producer[t.name] for t in taken if t is not None and t.name in producer] for taken in self.inputs]
        self.feeds: list[list[int]] = [[] for _ in self.layers]
        for k, sources in enumerate(self.feeds_from):
            for source in sources:
                self.feeds[source].append(k)
        self.first_from = {
            k: [producer[t.name] for t in self.inputs[k][:1] if t is not None and t.name in producer]
            for k, kind in enumerate(self.types)
            if kind == "RECURRENCE"
        }
        # the wrappers are kept, as the bindings give one object for one loop only while that object lives
        self.owners: list[Any] = [
            layer.loop if kind in LOOP_TYPES else layer.conditional if kind in CONDITIONAL_TYPES else None
            for layer, kind in zip(self.layers, self.types)
        ]
        self.boundary: dict[int, list[int]] = {}
        for k, owner in enumerate(self.owners):
            if owner is not None:
                self.boundary.setdefault(id(owner), []).append(k)
        self._trips: dict[int, tuple[list[list[int]], list[list[int]]]] = {}

    def of(self, owner: int, kind: str) -> list[int]:
        """Give the boundary layers of one kind of one construct."""
        return [k for k in self.boundary[owner] if self.types[k] == kind]

    def is_loop(self, owner: int) -> bool:
        """Say whether a construct is a loop."""
        return self.types[self.boundary[owner][0]] in LOOP_TYPES

    def members(self, owner: int) -> set[int]:
        """Give the layers inside a construct, boundary layers not counted but for recurrences and iterators."""
        if self.is_loop(owner):
            stop = {*self.of(owner, "LOOP_OUTPUT"), *self.of(owner, "TRIP_LIMIT")}
            return _reach([*self.of(owner, "RECURRENCE"), *self.of(owner, "ITERATOR")], self.feeds, stop)
        return self.branch(owner, 0) | self.branch(owner, 1)

    def branch(self, owner: int, which: int) -> set[int]:
        """Give the lazy layers of one branch (0 for true) of a conditional."""
        entries = self.of(owner, "CONDITIONAL_INPUT")
        outputs = set(self.of(owner, "CONDITIONAL_OUTPUT"))
        sources, users = self._this_trip(owner)
        after_entry = _reach(entries, users, outputs) - set(entries)
        return after_entry & _reach(self._sources(outputs, which), sources, set(entries))

    def _this_trip(self, owner: int) -> tuple[list[list[int]], list[list[int]]]:
        """Give who feeds whom, and the other way round, without the ways from a trip to the next of the loops around a conditional.

        A branch is made of what happens in this trip; a loop inside a branch is part of it with all its trips.
        """
        found = self._trips.get(owner)
        if found is None:
            own = set(self.boundary[owner])
            around = {
                k for loop in self.boundary if self.is_loop(loop) and not own.isdisjoint(self.members(loop)) for k in self.of(loop, "RECURRENCE")
            }
            sources = [self.first_from[k] if k in around else known for k, known in enumerate(self.feeds_from)]
            users: list[list[int]] = [[] for _ in self.layers]
            for k, known in enumerate(sources):
                for source in known:
                    users[source].append(k)
            found = self._trips[owner] = sources, users
        return found

    def eager(self, owner: int) -> set[int]:
        """Give the layers that serve nothing but this conditional and run always."""
        outputs = set(self.of(owner, "CONDITIONAL_OUTPUT"))
        entries = set(self.of(owner, "CONDITIONAL_INPUT"))
        lazy = self.members(owner)
        reached = _reach(self._sources(outputs, 0) | self._sources(outputs, 1), self._this_trip(owner)[0], set())
        region = {k for k in reached if k not in lazy and k not in entries}
        inside = region | lazy | entries | outputs
        serving: set[int] = set()
        for k in sorted(region, reverse=True):
            if (
                self.owners[k] is None
                and self.types[k] != "CONSTANT"
                and all(user in inside and (user not in region or user in serving) for user in self.feeds[k])
            ):
                serving.add(k)
        return serving

    def _sources(self, outputs: Iterable[int], which: int) -> set[int]:
        names = {self.inputs[k][which].name for k in outputs if self.inputs[k][which] is not None}
        return {source for k in outputs for source in self.feeds_from[k] if any(t is not None and t.name in names for t in self.outputs[source])}

    def nesting(self) -> dict[int, int | None]:
        """Give the construct that directly holds each construct."""
        members = {owner: self.members(owner) for owner in self.boundary}
        parents: dict[int, int | None] = {}
        for owner, own in self.boundary.items():
            holders = [
                other
                for other, inside in members.items()
                if other != owner and any(k in inside for k in own) and not any(k in members[owner] for k in self.boundary[other])
            ]
            parents[owner] = min(holders, key=lambda other: len(members[other])) if holders else None
        return parents

    def constructs(self, paths: dict[str, str]) -> tuple[Loop | Conditional, ...]:
        """Give the outermost loops and conditionals, with what is inside them."""
        parents = self.nesting()
        children: dict[int | None, list[int]] = {}
        for owner in sorted(self.boundary, key=lambda o: self.boundary[o][0]):
            children.setdefault(parents[owner], []).append(owner)

        def make(owner: int) -> tuple[Loop | Conditional, set[int]]:
            made = [(child, *make(child)) for child in children.get(owner, ())]
            inside = tuple(construct for _, construct, _ in made)
            parts = [(set(self.boundary[child]), within) for child, _, within in made]
            if self.is_loop(owner):
                layers = self.members(owner).union(*(within for _, within in parts))
                return self._loop(owner, paths, inside, layers), layers
            lazy = []
            for which in (0, 1):
                direct = self.branch(owner, which)
                lazy.append(direct.union(*(within for border, within in parts if not border.isdisjoint(direct))))
            return self._conditional(owner, paths, inside, lazy), lazy[0] | lazy[1]

        return tuple(make(owner)[0] for owner in children.get(None, ()))

    def _names(self, members: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.layers[k].name for k in sorted(members) if self.owners[k] is None)

    def _in(self, k: int, which: int = 0) -> str:
        taken = self.inputs[k]
        return taken[which].name if which < len(taken) and taken[which] is not None else "nothing"

    def _out(self, k: int) -> str:
        return self.outputs[k][0].name if self.outputs[k] else ""

    def _loop(self, owner: int, paths: dict[str, str], inside: tuple[Loop | Conditional, ...], layers: set[int]) -> Loop:
        name = self.owners[self.boundary[owner][0]].name
        outputs = []
        for k in self.of(owner, "LOOP_OUTPUT"):
            kind = self.layers[k].kind.name
            ends = (None, None) if kind == "LAST_VALUE" else (int(self.layers[k].axis), self._in(k, 1))
            outputs.append(LoopOutput(self._out(k), self._in(k), kind, *ends))
        return Loop(
            name,
            paths.get(name),
            tuple(TripLimit(self.layers[k].kind.name, self._in(k)) for k in self.of(owner, "TRIP_LIMIT")),
            tuple(Recurrence(self._out(k), self._in(k), self._in(k, 1)) for k in self.of(owner, "RECURRENCE")),
            tuple(Iteration(self._out(k), self._in(k), int(self.layers[k].axis), bool(self.layers[k].reverse)) for k in self.of(owner, "ITERATOR")),
            tuple(outputs),
            self._names(layers),
            inside,
        )

    def _conditional(self, owner: int, paths: dict[str, str], inside: tuple[Loop | Conditional, ...], lazy: list[set[int]]) -> Conditional:
        name = self.owners[self.boundary[owner][0]].name
        conditions = self.of(owner, "CONDITION")
        return Conditional(
            name,
            paths.get(name),
            self._in(conditions[0]) if conditions else "nothing",
            tuple((self._out(k), self._in(k)) for k in self.of(owner, "CONDITIONAL_INPUT")),
            tuple(ConditionalOutput(self._out(k), self._in(k), self._in(k, 1)) for k in self.of(owner, "CONDITIONAL_OUTPUT")),
            self._names(lazy[0]),
            self._names(lazy[1]),
            self._names(self.eager(owner) - lazy[0] - lazy[1]),
            inside,
        )


def _reach(start: Iterable[int], edges: list[list[int]], stop: set[int]) -> set[int]:
    found = set(start)
    pending = [k for k in found if k not in stop]
    while pending:
        for following in edges[pending.pop()]:
            if following not in found and following not in stop:
                found.add(following)
                pending.append(following)
    return found - stop


def _of_engine(engine: Engine) -> Description:
    import json

    from onnx_gs.trt.runner import loaded
    from onnx_gs.trt.tensorrt import trt

    with loaded(engine) as runtime_engine:
        inspector = runtime_engine.create_engine_inspector()
        listed = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))["Layers"]
        names = [runtime_engine.get_tensor_name(k) for k in range(runtime_engine.num_io_tensors)]

        def spell(name: str) -> str:
            shape = "x".join("?" if d < 0 else str(d) for d in runtime_engine.get_tensor_shape(name)) or "scalar"
            return f"{name} {runtime_engine.get_tensor_dtype(name).name.lower()} {shape}"

        inputs = tuple(spell(n) for n in names if runtime_engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT)
        outputs = tuple(spell(n) for n in names if runtime_engine.get_tensor_mode(n) == trt.TensorIOMode.OUTPUT)
    found = [
        Layer(item, "layer")
        if isinstance(item, str)
        else Layer(item.get("Name", ""), item.get("LayerType", "layer"), tuple(onnx_nodes(item.get("Metadata", ""))))
        for item in listed
    ]
    return Description((), tuple(found), inputs, outputs, "engine")
