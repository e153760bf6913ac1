"""Is a node given what its operator takes? Counts of inputs and outputs, attributes that must be there, and what enters and leaves bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.ops import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir import Node
    from onnx_gs.ops.schema import Schema

_ENDLESS = 1 << 30  # from here on a limit is none
_FIRST_SCAN = 8  # whose inputs and outputs are batched, and one of lengths comes first


def misuse(node: Node, version: int | None) -> str | None:
    """Say what is wrong with how a node uses an operator of ONNX's own; None where nothing is, or the operator is not known.

    Args:
        node: the node.
        version: of ONNX's operators.

    Example:
        >>> from onnx_gs.ir import Node, Variable
        >>> misuse(Node("Add", inputs=[Variable("x")], outputs=[Variable("y")]), 18), misuse(Node("Neg", inputs=[Variable("x")]), 18)
        ('it has 1 input, and takes 2', 'it has 0 outputs, and gives 1')
    """
    known = None if version is None else schema.find(node.op, version)
    if known is None:
        return None
    return (
        wrong_count(known, len(node._inputs), len(node._outputs))
        or _omitted(known, node)
        or next((f"it has no attribute '{name}', which it must have" for name in required(known) if name not in node.attrs), None)
        or (_MORE[node.op](node, known.since_version) if node.op in _MORE else None)
    )


def wrong_count(known: Schema, inputs: int, outputs: int) -> str | None:
    """Say that an operator takes or gives another number of values than these; None where it does not."""
    for have, least, most, noun, verb in (
        (inputs, known.min_inputs, known.max_inputs, "input", "takes"),
        (outputs, known.min_outputs, known.max_outputs, "output", "gives"),
    ):
        if not least <= have <= most:
            return f"it has {have} {noun}{'' if have == 1 else 's'}, and {verb} {spelled_range(least, most)}"
    return None


def spelled_range(least: int, most: int) -> str:
    """Spell how many inputs or outputs an operator has.

    Example:
        >>> spelled_range(2, 2), spelled_range(1, 3), spelled_range(1, 2**31 - 1)
        ('2', '1 to 3', 'at least 1')
    """
    return str(least) if least == most else f"at least {least}" if most >= _ENDLESS else f"{least} to {most}"


def counts_say_all(op: str, version: int | None) -> bool:
    """Say whether the numbers of inputs and outputs are all that can be wrong about a node that leaves out none of them."""
    known = None if version is None else schema.find(op, version)
    return known is None or not (op in _MORE or required(known))


def required(known: Schema) -> list[str]:
    """List the attributes that a node must give."""
    return [attribute.name for attribute in known.attributes.values() if attribute.is_required]


def _omitted(known: Schema, node: Node) -> str | None:
    for formal, tensor in zip(known.inputs, node._inputs):
        if not tensor._name and not formal.is_optional and not formal.is_variadic:
            return f"input '{formal.name}' is left out, which it must have"
    return None


def _is_body(value: Any) -> bool:
    return hasattr(value, "nodes") and hasattr(value, "inputs")


def _if(node: Node, version: int) -> str | None:
    for name in ("then_branch", "else_branch"):
        body = node.attrs[name]
        if not _is_body(body):
            continue  # a reference to an attribute of the function
        if body.inputs:
            return f"its {name} has inputs, and takes none"
        if len(body.outputs) != len(node.outputs):
            return f"its {name} gives {len(body.outputs)} values for {len(node.outputs)} outputs"
    return None


def _loop(node: Node, version: int) -> str | None:
    body = node.attrs["body"]
    if not _is_body(body):
        return None
    carried = max(len(node.inputs) - 2, 0)
    if len(body.inputs) != carried + 2:
        return f"its body has {len(body.inputs)} inputs, and takes the trip, the condition and {carried} carried values"
    if len(body.outputs) < carried + 1:
        return f"its body gives {len(body.outputs)} values, and must give the condition and {carried} carried values"
    if len(node.outputs) > len(body.outputs) - 1:
        return f"it has {len(node.outputs)} outputs, and its body gives {len(body.outputs) - 1} values for them"
    return None


def _scan(node: Node, version: int) -> str | None:
    body, count = node.attrs["body"], node.attrs["num_scan_inputs"]
    if not _is_body(body) or not isinstance(count, int):
        return None
    given = len(node.inputs) - (version <= _FIRST_SCAN)
    if not 1 <= count <= given:
        return f"it goes through {count} of its {given} inputs"
    if len(body.inputs) != given:
        return f"its body has {len(body.inputs)} inputs for {given}"
    if len(body.outputs) < max(given - count, len(node.outputs)):
        return f"its body gives {len(body.outputs)} values for {given - count} states and {len(node.outputs)} outputs"
    return None


def _constant(node: Node, version: int) -> str | None:
    return None if len(node.attrs) == 1 else f"it has {len(node.attrs)} attributes, and takes one, which is its value"


_MORE: dict[str, Callable[[Node, int], str | None]] = {"Constant": _constant, "If": _if, "Loop": _loop, "Scan": _scan}
