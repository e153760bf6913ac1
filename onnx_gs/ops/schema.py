"""Operator schemas: arity, types, attributes with their defaults, as the installed ``onnx`` states them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx
import onnx.defs

from onnx_gs.ir import dtypes
from onnx_gs.ops import domains, traits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.dtypes import DataType


@dataclass(frozen=True, slots=True)
class Formal:
    """One formal input or output of an operator.

    Attributes:
        name: its name in the specification.
        types: the type strings that it takes, such as ``"tensor(float)"``.
        type_var: the type constraint's name, such as ``"T"``, or a type string.
        is_optional: whether it may be left out.
        is_variadic: whether it stands for any number.
        is_homogeneous: whether all of a variadic one have one type.
    """

    name: str
    types: frozenset[str]
    type_var: str
    is_optional: bool
    is_variadic: bool
    is_homogeneous: bool


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an operator.

    Attributes:
        name: its name.
        type: the number of its type in ``onnx.AttributeProto.AttributeType``.
        is_required: whether a node must give it.
        default: what it is when left out, as Python value; None where it has none.
    """

    name: str
    type: int
    is_required: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Schema:
    """What the specification says about an operator at one version of its domain.

    Attributes:
        op: the operator.
        domain: its domain, ``""`` for ONNX's own.
        since_version: the version of the domain that this definition came with.
        inputs: formal inputs.
        outputs: formal outputs.
        min_inputs: the fewest inputs.
        max_inputs: the most inputs.
        min_outputs: the fewest outputs.
        max_outputs: the most outputs.
        attributes: by name.
        constraints: type strings by type variable.
        has_function_body: whether the specification defines it by other operators.
        is_deprecated: whether it is no longer to be used.
    """

    op: str
    domain: str
    since_version: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    attributes: Mapping[str, Attribute]
    constraints: Mapping[str, frozenset[str]]
    has_function_body: bool
    is_deprecated: bool

    def input(self, index: int) -> Formal | None:
        """Give the formal input at a position; a variadic last one stands for all that follow."""
        return _formal(self.inputs, index)

    def output(self, index: int) -> Formal | None:
        """Give the formal output at a position; a variadic last one stands for all that follow."""
        return _formal(self.outputs, index)


def _formal(formals: tuple[Formal, ...], index: int) -> Formal | None:
    if index < len(formals):
        return formals[index]
    return formals[-1] if formals and formals[-1].is_variadic else None


@cache
def find(op: str, version: int, domain: str = "") -> Schema | None:
    """Give the schema of an operator at a version of its domain, or None where the installed ``onnx`` knows none.

    Example:
        >>> find("Squeeze", 11).max_inputs, find("Squeeze", 13).max_inputs, find("Gather", 13).attributes["axis"].default
        (1, 2, 0)
    """
    try:
        found = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None
    return Schema(
        op,
        domain,
        found.since_version,
        tuple(_read_formal(f) for f in found.inputs),
        tuple(_read_formal(f) for f in found.outputs),
        found.min_input,
        found.max_input,
        found.min_output,
        found.max_output,
        {name: _read_attribute(a) for name, a in found.attributes.items()},
        {c.type_param_str: frozenset(c.allowed_type_strs) for c in found.type_constraints},
        bool(found.has_function) or bool(getattr(found, "has_context_dependent_function", False)),
        bool(found.deprecated),
    )


def of(graph: Graph, node: Node) -> Schema | None:
    """Give the schema of a node's operator at the version that its graph imports; None for operators that ``onnx`` does not define."""
    domain = domains.canonical(node.domain)
    version = domains.version(graph, domain)
    return None if version is None else find(node.op, version, domain)


def attribute(graph: Graph, node: Node, name: str) -> Any:
    """Give an attribute of a node, or the default that the specification states, or None."""
    found = node.attrs.get(name)
    if found is not None:
        return found
    schema = of(graph, node)
    known = schema.attributes.get(name) if schema is not None else None
    return None if known is None else known.default


def element_type(spelled: str) -> DataType | None:
    """Give the element type that a type string means; None for what is no tensor.

    Example:
        >>> element_type("tensor(float)").name, element_type("seq(tensor(float))")
        ('FLOAT', None)
    """
    return dtypes.BY_NAME.get(spelled.removeprefix("tensor(").removesuffix(")").upper()) if spelled.startswith("tensor(") else None


def _read_formal(formal: Any) -> Formal:
    options = onnx.defs.OpSchema.FormalParameterOption
    is_optional, is_variadic = formal.option == options.Optional, formal.option == options.Variadic
    return Formal(formal.name, frozenset(formal.types), formal.type_str, is_optional, is_variadic, bool(formal.is_homogeneous))


def _read_attribute(found: Any) -> Attribute:
    default = found.default_value
    value = None
    if default.type:
        value = onnx.helper.get_attribute_value(default)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, list):
            value = [v.decode() if isinstance(v, bytes) else v for v in value]
    kind = getattr(found.type, "value", found.type)
    return Attribute(found.name, int(kind), bool(found.required), value)


def may_omit_output(node: Node, position: int, opset: int) -> bool:
    """Say whether an output that nothing reads may be left out, so that neither the meaning nor the place of another changes.

    Outputs of unknown operators may; so may the optional ones of ONNX's own, and those that an operator does not have. Required outputs, and those
    whose number has a meaning (of ``Split``, ``If``, ``Loop``; ``BatchNormalization`` trains where it has more than one), may not.
    """
    if domains.canonical(node.domain) not in domains.STANDARD:
        return True
    if node.op == "BatchNormalization" and node.is_onnx:
        return False
    if node.is_onnx and position and opset >= traits.OUTPUTS_SINCE:  # the schemas, which say it too, take long to set up
        if node.op in traits.ONE_REQUIRED_OUTPUT:
            return True
        if node.op in traits.ALL_REQUIRED_OUTPUTS:
            return False
    known = find(node.op, opset if node.is_onnx else onnx.defs.onnx_opset_version(), "") if node.is_onnx else None
    if known is None:
        return True
    formal = known.output(position)
    return formal is None or formal.is_optional
