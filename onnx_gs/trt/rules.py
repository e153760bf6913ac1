"""The static rules: from a model's nodes, types and shapes to findings, without TensorRT.

One function a concern; ``RULES`` maps operators to those that look at them, ``EVERY`` holds those that look at all. A rule says nothing about
what it is not sure of: the builder's own verdict is added where the library is installed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import constness, dim_expr
from onnx_gs.analysis.loops import ENDLESS, is_true, origin
from onnx_gs.ir import Constant
from onnx_gs.ops import domains, since
from onnx_gs.trt import capability
from onnx_gs.trt.capability import MAX_RANK, MAX_TOPK, QUANTIZED_TYPES, ROWS, TENSOR_TYPES, Target
from onnx_gs.trt.facts import ModelFacts, known_bool
from onnx_gs.trt.findings import Finding, finding
from onnx_gs.trt.places import places
from onnx_gs.trt.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.io.glance import Glance
    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.trt.places import Place

    Rule = Callable[["Look"], Iterator[Finding]]

#: For rules that find nothing in most models: says of a model that it is one of these.
CALM: dict[Rule, Callable[[Survey], bool]] = {}


class Look:
    """One node under the rules' eyes, with what they ask about it."""

    def __init__(self, facts: ModelFacts, place: Place, target: Target) -> None:
        self.facts = facts
        self.place = place
        self.target = target
        self.node: Node = place.node
        self.opset = (place.function or facts.graph).opset

    @property
    def shapes(self) -> ShapeFacts:
        """The shape facts of what the node stands in; found when they are first asked for."""
        return self.facts.shapes(self.place)

    def find(self, row: str, reason: str, tensor: Tensor | None = None, **more: Any) -> Finding:
        """Make a finding about this node."""
        return finding(row, self.place.path, reason, tensor=tensor.name if tensor is not None else "", op=self.node.op, **more)

    def input(self, k: int) -> Tensor | None:
        """Give an input; None for an omitted one."""
        inputs = self.node.inputs
        return inputs[k] if k < len(inputs) and inputs[k].name else None

    def dtype(self, tensor: Tensor | None) -> str | None:
        """Give the name of a tensor's element type; None where unknown."""
        found = self.shapes.dtype(tensor) if tensor is not None else None
        return found.name if found is not None else None

    def rank(self, tensor: Tensor | None) -> int | None:
        """Give a tensor's rank; None where unknown."""
        return self.shapes.rank(tensor) if tensor is not None else None

    def decided(self, tensor: Tensor) -> bool:
        """Say whether the library can work an operand out while building: it depends on constants and shapes, not on data."""
        return self.facts.is_constant(tensor) or self.shapes.integers(tensor) is not None or not self.reaches_data(tensor)

    def reaches_data(self, tensor: Tensor) -> bool:
        """Say whether a tensor depends on the values of a network input, or on what varies from trip to trip."""
        return bool(self.facts.data_inputs(tensor))


def examine(facts: ModelFacts, target: Target) -> Iterator[Finding]:
    """Apply every rule to the interface, then to every node that it may be about."""
    yield from _interface(facts, target)
    # most models have no unusual type anywhere, and then the rules about types need not look at every node
    every = EVERY if facts.unusual() or not _bools_are_fine(facts.survey, target) else ()
    rules = {op: _awake(op, facts.survey) for op in facts.operators}
    oldest = min(root.opset for root in (facts.graph, *facts.graph.functions))
    calm = (op for op in facts.operators if not rules[op] and target.lacks(op) is None and since.exists(op, oldest))
    skipped = frozenset() if every else frozenset(calm)
    for place in facts.index.all if not skipped else places(facts.graph, skipped):
        look = Look(facts, place, target)
        yield from _operator(look)
        for rule in (*every, *(rules.get(place.node.op, ()) if place.node.is_onnx else ())):
            yield from rule(look)


def nothing_to_say(glance: Glance, target: Target) -> bool:
    """Say whether no rule has a word about a model, as far as a look at its message tells; False where it takes the graph to say so."""
    survey = Survey.at(glance)
    return (
        _bools_are_fine(survey, target)
        and survey.all_plain
        and survey.stays_below(MAX_RANK)
        and survey.only(_CALM_BORDER)
        and not any(_awake(op, survey) or target.lacks(op) is not None for op in glance.operators)
    )


def _bools_are_fine(survey: Survey, target: Target) -> bool:
    return target.bool_constants or survey.lacks({"BOOL"})


def _awake(op: str, survey: Survey) -> tuple[Rule, ...]:
    """Give the rules about an operator that may find something in a model."""
    return tuple(rule for rule in RULES.get(op, ()) if not (rule in CALM and CALM[rule](survey)))


# -- interface and types ---------------------------------------------------------------------------------


#: Types of inputs and outputs that are not worth a word.
_CALM_BORDER = TENSOR_TYPES - {"DOUBLE"}


def _interface(facts: ModelFacts, target: Target) -> Iterator[Finding]:
    graph = facts.graph
    path = f"graph '{graph.name}'"
    if not graph.outputs:
        yield finding("no-output", path, "it declares none")
    calm = facts.survey.only(_CALM_BORDER)  # no type of an output is worth a word then, so none is looked for
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            if kind == "input" and isinstance(tensor, Constant):
                continue
            if tensor.type != "tensor_type":
                yield finding(
                    "interface-type", path, f"{kind} '{tensor.name}' is a {tensor.type.removesuffix('_type').replace('_', ' ')}", tensor=tensor.name
                )
                continue
            dtype = None if calm else facts.main_shapes().dtype(tensor)
            name = dtype.name if dtype is not None else None
            if name is not None and name not in TENSOR_TYPES:
                yield finding("interface-dtype", path, f"{kind} '{tensor.name}' is {name.lower()}", tensor=tensor.name)
            elif name == "DOUBLE":
                yield finding("double-binding", path, f"{kind} '{tensor.name}' is double; the engine takes and gives float32", tensor=tensor.name)
            if kind == "input" and tensor.shape is None and facts.main_shapes().shape(tensor) is None:
                yield finding("unknown-rank", path, f"input '{tensor.name}' has no declared shape", tensor=tensor.name)


def _operator(look: Look) -> Iterator[Finding]:
    node = look.node
    if not node.is_onnx:
        yield from _foreign(look)
        return
    if not since.exists(node.op, look.opset):
        yield from _unknown(look)
        return
    row = look.target.lacks(node.op)
    if row is None:
        return
    if not look.facts.is_live(look.place):
        yield look.find("dead-node", f"{node.op} has no counterpart, and nothing needs the node")
        return
    if row == "unsupported-op" and node.op in FUNCTION_OPS:
        row = "function-op"
    folds = node.inputs and all(not t.name or look.facts.is_constant(t) for t in node.inputs)
    if folds:
        yield look.find(row, f"TensorRT has no {node.op}, but its inputs are constant", remedy="fold-constants", passes=("fold-constants",))
    else:
        yield look.find(row, f"{look.target} has no {node.op}")


def _unknown(look: Look) -> Iterator[Finding]:
    """An operator that ONNX's own domain does not have at the version that the model imports."""
    op, version = look.node.op, look.opset
    if op in capability.NATIVE_OPS or any(f.name == op and domains.canonical(f.domain) == "" for f in look.facts.graph.functions):
        return
    near = since.nearest(op, version)
    if op in since.SINCE:
        remedy = f"import version {since.SINCE[op]} or later, or spell the operator out"
    else:
        remedy = f"{f'did you mean {near!r}? Else ' if near else ''}{ROWS['unknown-op'].remedy}"
    yield look.find("unknown-op", since.why_unknown(op, version), remedy=remedy)


def _foreign(look: Look) -> Iterator[Finding]:
    node = look.node
    key = (node.domain or "", node.op, node.overload)
    called = next((f for f in look.facts.graph.functions if f.key == key), None)
    if called is None:
        if node.op not in capability.FOREIGN_OPS:
            yield look.find("unknown-op", f"{node.domain}::{node.op} is no local function")
        return
    given = sum(1 for t in node.inputs if t.name)
    if given < len(called.inputs):
        yield look.find("function-missing-input", f"{len(called.inputs) - given} of {len(called.inputs)} inputs of {node.op} are left out")


def _tensors(look: Look) -> Iterator[Finding]:
    """Types and ranks of what a node reads and makes."""
    node = look.node
    if not node.is_onnx or node.op == "Constant":
        return
    for tensor in node.outputs:
        rank = look.rank(tensor)
        if rank is not None and rank > MAX_RANK:
            yield look.find("rank-limit", f"'{tensor.name}' has {rank} dims, and {MAX_RANK} is the limit", tensor)
    for tensor in node.inputs:
        if isinstance(tensor, Constant) and tensor.name:
            dtype = look.dtype(tensor)
            if dtype is not None and dtype not in TENSOR_TYPES:
                yield look.find("dtype", f"constant '{tensor.name}' is {dtype.lower()}", tensor)
            if dtype == "BOOL" and not look.target.bool_constants:
                yield look.find("bool-constant", f"constant '{tensor.name}' is bool", tensor)


def _constant(look: Look) -> Iterator[Finding]:
    held = constness.values_of_node(look.node)
    name = next(iter(look.node.attrs), "")
    if name in {"sparse_value", "value_string", "value_strings"}:
        row = "constant-form" if look.facts.is_live(look.place) else "dead-node"
        yield look.find(row, f"the constant is given as {name}")
        return
    dtype = look.dtype(look.node.outputs[0]) if held is not None else None
    if dtype is not None and dtype not in TENSOR_TYPES:
        yield look.find("dtype", f"the constant is {dtype.lower()}", look.node.outputs[0])


def _cast(look: Look) -> Iterator[Finding]:
    node = look.node
    made = look.dtype(node.outputs[0])
    if made in QUANTIZED_TYPES:
        yield look.find("quantized-type-use", f"a Cast to {made.lower()}; only QuantizeLinear makes it", node.outputs[0])
    elif made is not None and made not in TENSOR_TYPES:
        yield look.find("dtype", f"a Cast to {made.lower()}", node.outputs[0])
    taken = look.dtype(look.input(0))
    if taken in QUANTIZED_TYPES:
        yield look.find("quantized-type-use", f"a Cast of {taken.lower()}; only DequantizeLinear takes it", look.input(0))


CALM[_constant] = CALM[_cast] = lambda survey: survey.only(TENSOR_TYPES - QUANTIZED_TYPES)  # a constant in another form has no known type

#: Operators that take uint8 from, or give it to, the network's border.
_UINT8_USERS = frozenset({"Cast", "CastLike", "Identity", "DequantizeLinear", "QuantizeLinear", "Equal"})


def _narrow(look: Look) -> Iterator[Finding]:
    """int8 constants as numbers, and uint8 inside."""
    node = look.node
    if not node.is_onnx or node.has_body or node.op == "Constant":
        return
    for tensor in node.inputs:
        dtype = look.dtype(tensor) if tensor.name else None
        if dtype == "INT8" and node.op not in {"DequantizeLinear", "QuantizeLinear"} and look.facts.is_weight(tensor):
            yield look.find("int8-number", f"constant '{tensor.name}' is int8, and {node.op} uses it as a number", tensor)
        elif dtype == "UINT8" and node.op not in _UINT8_USERS:
            yield look.find("uint8-inside", f"{node.op} reads '{tensor.name}', which is uint8", tensor)
    for tensor in node.outputs:
        if (
            look.dtype(tensor) == "UINT8"
            and node.op in {"Cast", "CastLike", "Identity"}
            and not _is_output(look.facts.graph, tensor)
            and tensor.outputs
        ):
            yield look.find("uint8-inside", f"'{tensor.name}' is uint8 inside the network", tensor)


def _is_output(graph: Graph, tensor: Tensor) -> bool:
    return any(t is tensor for t in graph.outputs)


# -- control flow --------------------------------------------------------------------------------------------


def _if(look: Look) -> Iterator[Finding]:
    node = look.node
    condition = look.input(0)
    branches = [node.attrs.get("then_branch"), node.attrs.get("else_branch")]
    if condition is None or any(b is None or not hasattr(b, "nodes") for b in branches):
        return
    if known_bool(look.facts, look.place, condition) is not None:
        return
    in_loop = any(p.node.op in {"Loop", "Scan"} for p in look.place.outer)
    for then, other, made in zip(branches[0].outputs, branches[1].outputs, node.outputs):  # type: ignore[union-attr]
        yield from _branches(look, then, other, made, condition, in_loop=in_loop)


def _branches(look: Look, then: Tensor, other: Tensor, made: Tensor, condition: Tensor, *, in_loop: bool) -> Iterator[Finding]:
    a, b = look.shapes.shape(then), look.shapes.shape(other)
    types = look.dtype(then), look.dtype(other)
    if None not in types and types[0] != types[1]:
        yield look.find("if-type", f"'{then.name}' is {str(types[0]).lower()}, '{other.name}' is {str(types[1]).lower()}", made)
    if a is None or b is None:
        return
    if len(a) != len(b):
        yield look.find("if-rank", f"'{then.name}' has rank {len(a)}, '{other.name}' rank {len(b)}; '{condition.name}' decides at run time", made)
        return
    differs = any(dim_expr.equal(x, y) is False for x, y in zip(a, b))
    if in_loop and (differs or any(_grows(x, y) or _grows(y, x) for x, y in zip(a, b))):
        yield look.find("if-size-in-loop", f"'{then.name}' is {_spell(a)}, '{other.name}' is {_spell(b)}", made)
    elif differs and look.target.same_branch_shapes:
        yield look.find("if-shape", f"'{then.name}' is {_spell(a)}, '{other.name}' is {_spell(b)}", made)


def _grows(fixed: Any, other: Any) -> bool:
    """Say whether one size is a number and the other a sum over something unknown: equal in some trip at most."""
    return isinstance(fixed, int) and not isinstance(other, int) and "+" in str(other) and dim_expr.equal(fixed, other) is not True


def _spell(shape: tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _reads(tensor: Tensor, body: Graph) -> bool:
    return bool(tensor.outputs) or any(t is tensor for t in body.outputs)


def _loop(look: Look) -> Iterator[Finding]:
    node = look.node
    body = node.attrs.get("body")
    if body is None or not hasattr(body, "nodes") or len(body.inputs) < 2 or not body.outputs:
        return
    trip, condition = look.input(0), look.input(1)
    limit = constness.scalar(trip) if trip is not None else None
    counted = trip is not None and not (limit is not None and limit >= ENDLESS)
    carried = len(node.inputs) - 2
    scans = node.outputs[carried:]
    if not counted and _reads(body.inputs[0], body):
        yield look.find("loop-no-count", f"the body reads '{body.inputs[0].name}', but the loop has no trip limit", body.inputs[0])
    if condition is None and _reads(body.inputs[1], body):
        yield look.find("loop-no-condition", f"the body reads '{body.inputs[1].name}', but no condition is given", body.inputs[1])
    if not counted and condition is None:
        yield look.find("loop-endless", "neither a trip count nor a condition is given")
    if not counted and scans:
        yield look.find("while-scan", f"scan output '{scans[0].name}' has a length that is known after the loop only", scans[0])
    stops = condition is not None and not (is_true(body.outputs[0]) or origin(body.outputs[0]) is body.inputs[1])
    if counted and stops and any(t.name for t in scans):
        yield look.find(
            "padded-scan", f"'{scans[0].name}' gets as many rows as the trip limit says, also when the condition stops the loop before", scans[0]
        )
    if trip is not None and scans:
        yield from _size(look, trip)
    yield from _states(look, node.inputs[2:], body.inputs[2:], body.outputs[1 : 1 + carried], node.outputs[:carried])
    yield from _loop_memory(look, [*node.inputs[2:], *node.outputs])
    yield from _sliced_by(look, body, {id(body.inputs[0])})


def _scan(look: Look) -> Iterator[Finding]:
    node = look.node
    body, count = node.attrs.get("body"), node.attrs.get("num_scan_inputs")
    if body is None or not hasattr(body, "nodes") or not isinstance(count, int):
        return
    first = 1 if look.opset < 9 else 0
    states = node.inputs[first : len(node.inputs) - count]
    if not states:
        yield look.find("scan-no-state", "the Scan maps its inputs and carries nothing")
    for name in ("scan_input_axes", "scan_output_axes"):
        for axis in node.attrs.get(name) or ():
            if axis < 0:
                yield look.find("scan-negative-axis", f"{name} holds {axis}")
    yield from _states(look, states, body.inputs[: len(states)], body.outputs[: len(states)], node.outputs[: len(states)], batched=look.opset < 9)
    yield from _loop_memory(look, [*node.inputs[first:], *node.outputs])


def _states(
    look: Look, initial: list[Tensor], inside: list[Tensor], after: list[Tensor], final: list[Tensor], *, batched: bool = False
) -> Iterator[Finding]:
    for start, formal, out, made in zip(initial, inside, after, final):
        types = look.dtype(start), look.dtype(out)
        if None not in types and types[0] != types[1]:
            yield look.find("carried-type", f"'{start.name}' is {str(types[0]).lower()}, '{out.name}' is {str(types[1]).lower()}", made)
        if look.target.float_loops_only and types[0] not in {None, "FLOAT", "FLOAT16"}:
            yield look.find("loop-dtype", f"'{start.name}' is {str(types[0]).lower()}", start)
        shapes = [look.shapes.shape(t) for t in (start, formal, out)]
        if batched or shapes[2] is None:
            continue
        for before, how in ((shapes[0], f"'{start.name}' starts as"), (shapes[1], f"'{formal.name}' is in one trip")):
            if before is not None and _differs(before, shapes[2]):
                yield look.find("carried-shape", f"{how} {_spell(before)} and becomes '{out.name}', {_spell(shapes[2])}", start)
                break


def _differs(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) != len(b) or any(dim_expr.equal(x, y) is False for x, y in zip(a, b))


def _loop_memory(look: Look, tensors: list[Tensor]) -> Iterator[Finding]:
    dims: dict[str, None] = {}
    for tensor in tensors:
        for d in look.shapes.shape(tensor) or ():
            if not isinstance(d, int) and not str(d).startswith("?"):
                dims.setdefault(str(d))
    if len(dims) > 1:
        yield look.find("loop-memory", f"the loop works on the dynamic dims {', '.join(list(dims)[:4])}")


def _sliced_by(look: Look, body: Graph, numbers: set[int]) -> Iterator[Finding]:
    """Slices in a body whose bounds are made from the iteration number."""
    if not body.inputs[0].outputs:
        return
    operands = {"Slice": (1, 2), "Range": (0, 1)}
    for inner in body.nodes:
        for k in operands.get(inner.op, ()) if inner.is_onnx else ():
            if k < len(inner.inputs) and inner.inputs[k].name and look.facts.depends_on(inner.inputs[k], numbers):
                yield look.find(
                    "slice-by-iteration",
                    f"{inner.op} '{inner.name or inner.outputs[0].name}' in the body takes '{inner.inputs[k].name}', of '{body.inputs[0].name}'",
                    inner.inputs[k],
                )
                break


# -- sizes and operands -------------------------------------------------------------------------------------

#: Operands that say how large a result is.
SIZE_OPERANDS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Slice": (1, 2, 3, 4), "Tile": (1,), "Pad": (1, 3), "Resize": (2, 3), "Upsample": (1,), "ConstantOfShape": (0,),
    "Range": (0, 1, 2), "TopK": (1,), "OneHot": (1,), "Split": (1,), "Unsqueeze": (1,), "Squeeze": (1,), "CumSum": (1,), "Trilu": (1,),
}  # fmt: skip


def _sizes(look: Look) -> Iterator[Finding]:
    for k in SIZE_OPERANDS.get(look.node.op, ()):
        operand = look.input(k)
        if operand is not None and not isinstance(operand, Constant):
            yield from _size(look, operand)


def _size(look: Look, operand: Tensor) -> Iterator[Finding]:
    """An operand that decides a size may depend on integer inputs only."""
    if look.shapes.integers(operand) is not None:
        return
    for tensor in look.facts.data_inputs(operand):
        dtype = look.dtype(tensor)
        if dtype is None or dtype in {"INT32", "INT64"}:
            continue
        direct = any(tensor is t for t in look.node.inputs) or look.rank(tensor) == 0
        row = "size-input-type" if direct or (look.rank(tensor) == 1 and dtype != "BOOL") else "size-from-data"
        yield look.find(row, f"'{operand.name}' decides a size and is made from input '{tensor.name}', which is {dtype.lower()}", tensor)
        return


def _must_be_decided(*operands: int, row: str = "constant-operand") -> Rule:
    def rule(look: Look) -> Iterator[Finding]:
        for k in operands:
            operand = look.input(k)
            if operand is not None and not look.decided(operand):
                yield look.find(row, f"'{operand.name}' is computed from data; {look.node.op} takes only what is known while building", operand)

    return rule


def _must_be_constant(*operands: int, row: str = "constant-operand") -> Rule:
    def rule(look: Look) -> Iterator[Finding]:
        for k in operands:
            operand = look.input(k)
            if operand is not None and not look.facts.is_resolved(operand):
                folds = look.facts.is_constant(operand) or look.shapes.integers(operand) is not None
                known = "it could be folded, but TensorRT does not do so here" if folds else "it is computed at run time"
                yield look.find(row, f"'{operand.name}' must be a constant: {known}", operand)

    return rule


# -- single operators -----------------------------------------------------------------------------------------


def _outputs(most: int) -> Rule:
    def rule(look: Look) -> Iterator[Finding]:
        extra = [t for t in look.node.outputs[most:] if t.name]
        if extra:
            unused = not any(t.outputs or _is_output(look.facts.graph, t) for t in extra)
            yield look.find(
                "extra-outputs",
                f"{look.node.op} gives only {most} output{'s' if most > 1 else ''}; '{extra[0].name}' is {'unused' if unused else 'used'}",
                extra[0],
            )

    return rule


def _types(k: int, *allowed: str) -> Rule:
    def rule(look: Look) -> Iterator[Finding]:
        tensor = look.input(k)
        dtype = look.dtype(tensor)
        if dtype is not None and dtype not in allowed and dtype in TENSOR_TYPES and not (tensor is not None and look.facts.is_constant(tensor)):
            yield look.find("op-dtype", f"{look.node.op} of {dtype.lower()}", tensor)

    CALM[rule] = lambda survey: survey.lacks(TENSOR_TYPES.difference(allowed))
    return rule


def _attribute(name: str, allowed: tuple[Any, ...], default: Any, row: str = "attribute") -> Rule:
    def rule(look: Look) -> Iterator[Finding]:
        value = look.node.attrs.get(name, default)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if not hasattr(value, "name") and value not in allowed:
            yield look.find(row, f"{name} is {value!r}; TensorRT has {', '.join(map(repr, allowed))}")

    return rule


def _argmax(look: Look) -> Iterator[Finding]:
    if look.rank(look.input(0)) == 1:
        yield look.find("argmax-1d", f"'{look.node.inputs[0].name}' has rank 1", look.input(0))


def _topk(look: Look) -> Iterator[Finding]:
    k = constness.scalar(look.node.inputs[1]) if len(look.node.inputs) > 1 else look.node.attrs.get("k")
    if isinstance(k, int) and k > MAX_TOPK:
        yield look.find("topk-limit", f"K is {k}, and {MAX_TOPK} is the limit", look.input(1))


def _split(look: Look) -> Iterator[Finding]:
    """Equal parts are rounded up, so that less than nothing may be left for the last. Source: measured."""
    parts = look.node.attrs.get("num_outputs")
    if not isinstance(parts, int) or parts < 2 or look.input(1) is not None:
        return
    shape = look.shapes.shape(look.node.inputs[0])
    axis = look.node.attrs.get("axis", 0)
    size = shape[axis] if shape is not None and isinstance(axis, int) and -len(shape) <= axis < len(shape) else None
    if isinstance(size, int) and -(-size // parts) * (parts - 1) > size:
        yield look.find("split-parts", f"{parts} parts of {size} elements", look.input(0))


def _dropout(look: Look) -> Iterator[Finding]:
    mode = look.input(2)
    if mode is None:
        return
    value = constness.scalar(mode)
    if value:
        yield look.find("training-mode", "training_mode is true", mode)
    elif value is None:
        yield look.find("constant-operand", f"training_mode is '{mode.name}', which is no constant", mode)


def _quantize(look: Look) -> Iterator[Finding]:
    node = look.node
    zero = look.input(2)
    if node.op == "QuantizeLinear" and zero is None and not node.attrs.get("output_dtype"):
        yield look.find("quantize-default-type", f"'{node.outputs[0].name}' is uint8 in ONNX and int8 in the engine", node.outputs[0])
    if zero is not None:
        values = constness.array(zero)
        if values is not None and values.astype("float32").any():
            yield look.find("zero-point", f"'{zero.name}' holds {values.reshape(-1)[0]}", zero)
        elif values is None and not look.facts.is_constant(zero) and look.dtype(zero) != "FLOAT8E4M3FN":
            yield look.find("constant-operand", f"zero point '{zero.name}' is computed at run time", zero)
    narrow = node.inputs[0] if node.op == "DequantizeLinear" else node.outputs[0]
    shape = look.shapes.shape(narrow)
    sizes = [d for d in shape or () if isinstance(d, int)]
    if look.dtype(narrow) in {"INT4", "FLOAT4E2M1"} and shape is not None and len(sizes) == len(shape) and math.prod(sizes) % 2:
        yield look.find("quantized-type-use", f"'{narrow.name}' has an odd number of 4-bit elements", narrow)
    if node.op == "DequantizeLinear" and look.dtype(look.input(0)) == "INT32":
        yield look.find("int32-dequantize", f"'{node.inputs[0].name}' is int32", look.input(0))


def _attention(look: Look) -> Iterator[Finding]:
    """The forms of Attention that there is a kernel for. Source: measured, the backend tests and 17 sizes and types more."""
    node = look.node
    if len([t for t in node.outputs if t.name]) > 1:
        yield look.find("attention-form", "it gives more than one output", node.outputs[1])
        return
    for name, default in (("softcap", 0.0), ("softmax_precision", None), ("qk_matmul_output_mode", 0)):
        value = node.attrs.get(name, default)
        if value != default and not hasattr(value, "name"):
            yield look.find("attention-form", f"{name} is {value}")
            return
    query, key, values, mask = (look.input(k) for k in range(4))
    causal = bool(node.attrs.get("is_causal", 0))
    if causal and mask is not None:
        yield look.find("attention-form", "it is causal and has a mask", mask)
        return
    padding = look.input(6)
    q, k, v = (look.shapes.shape(t) if t is not None else None for t in (query, key, values))
    if k is not None and v is not None and k != v and all(isinstance(d, int) for d in (*k, *v)):
        yield look.find("attention-form", f"keys are {_spell(k)} and values {_spell(v)}", values)
        return
    if q is None or k is None or len(q) not in {3, 4}:
        return
    heads, kv_heads = node.attrs.get("q_num_heads", 1), node.attrs.get("kv_num_heads", 1)
    grouped = heads != kv_heads if len(q) == 3 else q[1] != k[1]
    if len(q) == 3 and not (mask is not None or causal or grouped):
        return
    length, size = q[-2], q[-1]
    if mask is not None and padding is not None:
        yield look.find("attention-form", "it has a mask and padded keys", mask)
        return
    if length == 1:
        return
    if len(q) == 3 and isinstance(size, int):
        size = size // heads
    dtype = look.dtype(query)
    if dtype not in {None, "FLOAT16", "BFLOAT16"}:
        yield look.find("attention-kernel", f"its type is {str(dtype).lower()}", query)
    elif isinstance(size, int) and size < _SMALLEST_HEAD:
        yield look.find("attention-kernel", f"its head size is {size}", query)


_SMALLEST_HEAD = 16


def _dilations(look: Look) -> Iterator[Finding]:
    dilations = look.node.attrs.get("dilations")
    if isinstance(dilations, (list, tuple)) and any(d != 1 for d in dilations):
        yield look.find("attribute", f"dilations are {list(dilations)}; pooling has none but 1")


def _mod(look: Look) -> Iterator[Finding]:
    dtype = look.dtype(look.input(0))
    if dtype is not None and not look.node.attrs.get("fmod", 0) and dtype not in {"INT32", "INT64"} and dtype in TENSOR_TYPES:
        yield look.find("op-dtype", f"Mod of {dtype.lower()} with fmod 0", look.input(0))


def _old_broadcast(look: Look) -> Iterator[Finding]:
    if look.opset < 7:
        yield look.find("old-opset", f"{look.node.op} of opset {look.opset}")


CALM[_old_broadcast] = lambda survey: survey.opset >= 7


def _mat_mul(look: Look) -> Iterator[Finding]:
    a, b = look.rank(look.input(0)), look.rank(look.input(1))
    if a == 1 and b is not None and b > 2:
        yield look.find("operand-rank", f"MatMul of a vector by a tensor of rank {b}", look.input(0))


def _tensor_scatter(look: Look) -> Iterator[Finding]:
    rank = look.rank(look.input(0))
    if rank is not None and rank != 4:
        yield look.find("operand-rank", f"the cache has rank {rank}; TensorRT takes 4", look.input(0))


def _random(look: Look) -> Iterator[Finding]:
    dtype = look.dtype(look.node.outputs[0])
    if dtype not in {None, "FLOAT", "FLOAT16"}:
        yield look.find("op-dtype", f"{look.node.op} of {str(dtype).lower()}", look.node.outputs[0])
    if look.node.attrs.get("seed") is not None:
        yield look.find("random-seed", "the seed is ignored: each run differs from ONNX's")


_REDUCTIONS = (
    "ReduceSum",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)
_NUMBERS = ("FLOAT", "FLOAT16", "BFLOAT16", "INT32", "INT64", "DOUBLE")
_FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")

#: Operators that ONNX defines by a function of other operators, and that have no importer. Source: ``onnx.defs`` of onnx 1.23.
FUNCTION_OPS = frozenset(
    {
        "AffineGrid",
        "Bernoulli",
        "CenterCropPad",
        "DynamicQuantizeLinear",
        "NegativeLogLikelihoodLoss",
        "SequenceMap",
        "SoftmaxCrossEntropyLoss",
        "SwiGLU",
        "LinearAttention",
        "CausalConvWithState",
        "BitCast",
    }
)

_RESIZE_MODES = ("align_corners", "tf_half_pixel_for_nn", "pytorch_half_pixel", "half_pixel", "asymmetric", "half_pixel_symmetric")

EVERY: tuple[Rule, ...] = (_tensors, _narrow)
RULES: dict[str, tuple[Rule, ...]] = {
    "If": (_if,),
    "Loop": (_loop,),
    "Scan": (_scan,),
    "Cast": (_cast,),
    "CastLike": (_cast,),
    "Constant": (_constant,),
    **dict.fromkeys(SIZE_OPERANDS, (_sizes,)),
    **{op: (_must_be_constant(1, row="reduce-axes"), _types(0, *_NUMBERS)) for op in _REDUCTIONS},
    "Unsqueeze": (_sizes, _must_be_decided(1)),
    "Squeeze": (_sizes, _must_be_decided(1)),
    "CumSum": (_must_be_decided(1),),
    "OneHot": (_must_be_decided(1),),
    "Split": (_sizes, _split),
    "Dropout": (_dropout,),
    "MaxPool": (_outputs(1), _dilations),
    "LayerNormalization": (_outputs(1),),
    "BatchNormalization": (_attribute("training_mode", (0,), 0, "training-mode"),),
    "ArgMax": (_argmax,),
    "ArgMin": (_argmax,),
    "TopK": (_sizes, _topk),
    "Relu": (_types(0, *_FLOATS),),
    "MatMul": (_types(0, *_FLOATS), _mat_mul),
    "ScatterND": (_attribute("reduction", ("none",), "none", "scatter-reduction"),),
    "ScatterElements": (_attribute("reduction", ("none",), "none", "scatter-reduction"),),
    "QuantizeLinear": (_quantize,),
    "DequantizeLinear": (_quantize,),
    "Attention": (_attention,),
    "Mod": (_mod,),
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "Gemm", "PRelu", "Max", "Min", "Sum", "Mean"),
        (_old_broadcast,),
    ),
    "AveragePool": (_dilations,),
    "LpPool": (_dilations, _attribute("p", (1, 2), 2)),
    "STFT": (_must_be_constant(1, 3),),
    "Clip": (_types(0, *_NUMBERS),),
    "Celu": (_types(0, "FLOAT"),),
    "TensorScatter": (_tensor_scatter, _attribute("mode", ("linear",), "linear")),
    "Resize": (
        _sizes,
        _attribute("antialias", (0,), 0),
        _attribute("keep_aspect_ratio_policy", ("stretch",), "stretch"),
        _attribute("coordinate_transformation_mode", _RESIZE_MODES, "half_pixel"),
    ),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"), (_random,)),
}
