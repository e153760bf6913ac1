"""Local functions into their callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.ir import Node, Variable, edit, walk
from onnx_gs.ir.attribute import AttributeRef
from onnx_gs.ir.instantiate import Body
from onnx_gs.ir.node import is_graph
from onnx_gs.ops import domains, schema
from onnx_gs.passes.base import Pass

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.function import Function
    from onnx_gs.passes.base import Report

Key = tuple[str, str, str]


@dataclass(frozen=True)
class InlineFunctions(Pass):
    """Replace calls of local functions by the functions' bodies, and drop functions that are no longer called.

    Matches:   nodes whose domain, operator and overload name a function of the model; also inside bodies, and inside other functions.
    Rewrites:  the function's nodes in place of the call, its inputs bound, its attribute references replaced by the call's values or the
               function's defaults (an attribute that has neither goes); calls inside are inlined in turn.
    Declines:  operators that mean something else at the model's opset than at the function's; a graph attribute used twice; a function
               that returns an input which the call leaves out.
    TensorRT:  takes most calls as they are, but not one that leaves out an optional input.

    Before::                                             After::
        y = local.Twice (x)   # Twice (a) => (b) {          y = Add (x, x)
                              #   b = Add (a, a) }

    Args:
        names: only functions of these names (``"name"`` or ``"domain::name"``); all where empty.
        where_needed: only calls that leave out an optional input, or whose function holds, at any depth, an operator of ``ops``.
        ops: operators that TensorRT does not take, or that other passes lower.
    """

    name: ClassVar[str] = "inline-functions"

    names: tuple[str, ...] = ()
    where_needed: bool = False
    ops: tuple[str, ...] = ()

    def run(self, graph: Graph, report: Report) -> None:
        """Inline into the graph and into the functions that stay."""
        functions = {f.key: f for f in graph.functions}
        if not functions:
            return
        wanted = _Wanted(self, functions)
        inlined: set[Key] = set()
        for function in graph.functions:
            edit.rename_apart(function)
        for root in [graph, *graph.functions]:
            _inline_into(root, functions, wanted, report, inlined)
        called = {key(node) for _, node in walk.nodes(graph, functions=True)}
        before = len(graph.functions)
        while True:  # a function that only dropped functions called goes too
            graph.functions[:] = [f for f in graph.functions if f.key in called or f.key not in inlined]
            if len(graph.functions) == before:
                break
            before = len(graph.functions)
            called = {key(node) for _, node in walk.nodes(graph, functions=True)}


def key(node: Node) -> Key:
    """Give what a node names if it is a call: domain, operator, overload."""
    return (domains.canonical(node.domain), node.op, node.overload)


class _Wanted:
    """Which calls the options ask for."""

    def __init__(self, options: InlineFunctions, functions: dict[Key, Function]) -> None:
        self.options = options
        self.functions = functions
        self._needs: dict[Key, bool] = {}

    def __call__(self, node: Node, function: Function) -> bool:
        names = self.options.names
        if names and function.name not in names and f"{function.domain}::{function.name}" not in names:
            return False
        if not self.options.where_needed:
            return True
        partial = len(node.inputs) < len(function.inputs) or any(t.is_empty() for t in node.inputs)
        return partial or self._holds_needed(function)

    def _holds_needed(self, function: Function) -> bool:
        found = self._needs.get(function.key)
        if found is None:
            found = False
            pending, seen = [function], {function.key}
            while pending and not found:
                for _, node in walk.nodes(pending.pop()):
                    callee = self.functions.get(key(node))
                    if callee is not None and callee.key not in seen:
                        seen.add(callee.key)
                        pending.append(callee)
                    partial = callee is not None and (len(node.inputs) < len(callee.inputs) or any(t.is_empty() for t in node.inputs))
                    found = found or partial or (callee is None and node.op in self.options.ops)
            self._needs[function.key] = found
        return found


def _inline_into(root: Graph, functions: dict[Key, Function], wanted: _Wanted, report: Report, inlined: set[Key]) -> None:
    pending = [(owner, node) for owner, node in walk.nodes(root) if key(node) in functions]
    if not pending:
        return
    edit.rename_apart(root)
    templates: dict[Key, Body] = {}
    pending.reverse()
    with edit.Editor(root) as editor:
        while pending:
            owner, node = pending.pop()
            function = functions[key(node)]
            if not wanted(node, function):
                continue
            why = _obstacle(root, functions, node, function)
            if why is not None:
                report.decline(owner, node, why)
                continue
            if function.key not in templates:
                templates[function.key] = Body(function)
            report.rewrote(owner, node, f"function '{function.name}'")
            inlined.add(function.key)
            nodes = splice(editor, root, owner, node, function, templates[function.key])
            fresh: list[tuple[Graph, Node]] = []
            for new in nodes:
                fresh.append((owner, new))
                fresh.extend((g, inner) for g in walk.nested(new) for inner in g.nodes)
            pending.extend((g, n) for g, n in reversed(fresh) if key(n) in functions)


def _obstacle(root: Graph, functions: dict[Key, Function], call: Node, function: Function) -> str | None:
    """Say why a call cannot be inlined."""
    if len(call.inputs) > len(function.inputs) or len(call.outputs) > len(function.outputs):
        return f"the call has more inputs or outputs than function '{function.name}'"
    present = [k < len(call.inputs) and not call.inputs[k].is_empty() for k in range(len(function.inputs))]
    missing = {id(t) for t, given in zip(function.inputs, present) if not given}
    if any(id(t) in missing for t in function.outputs):
        return "the function returns an input that the call leaves out"
    if any(is_graph(value) for value in call.attrs.values()):
        uses = [v.name for _, n in walk.nodes(function) for v in n.attrs.values() if isinstance(v, AttributeRef)]
        if any(is_graph(value) and uses.count(name) > 1 for name, value in call.attrs.items()):
            return "a graph attribute of the call is used more than once in the function"
    return version_clash(root, functions, function)


def version_clash(root: Graph, functions: dict[Key, Function], function: Function) -> str | None:
    """Say why a function's operators mean something else in a model; None where they do not.

    Args:
        root: the model's graph, or the function, that will hold them.
        functions: the model's functions, whose calls have no version.
        function: the function.
    """
    ours, theirs = root.opset_versions(), function.opset_versions()
    ours[""] = root.opset
    for _, node in walk.nodes(function):
        domain = domains.canonical(node.domain)
        if key(node) in functions:
            continue
        version = theirs.get(domain)
        present = ours.get(domain)
        if version is None or present is None or version == present:
            continue
        a, b = schema.find(node.op, version, domain), schema.find(node.op, present, domain)
        if a is None or b is None or not _means_the_same(node, a, b):
            shown = domain or "ai.onnx"
            return f"function '{function.name}' uses {shown}::{node.op} of version {version}, the model imports version {present}"
    return None


#: Operators whose meaning, or the meaning of an attribute's value, changed between versions of one signature.
_CHANGED = frozenset({"GridSample", "Resize", "Split", "Upsample"})


def _means_the_same(node: Node, old: schema.Schema, new: schema.Schema) -> bool:
    """Say whether a node computes the same by two definitions of its operator: what it gives and leaves out is in both, with equal defaults."""
    if old.since_version == new.since_version:
        return True
    if node.op in _CHANGED or new.is_deprecated or not new.min_inputs <= len(node.inputs) <= new.max_inputs or len(node.outputs) > new.max_outputs:
        return False
    inputs = [(old.input(k), new.input(k)) for k in range(len(node.inputs))]
    outputs = [(old.output(k), new.output(k)) for k in range(len(node.outputs))]
    if any(a is None or b is None or a.name != b.name for a, b in (*inputs, *outputs)):
        return False
    if any(a is not None and b is not None and not a.types <= b.types for a, b in inputs):
        return False
    for name in node.attrs:
        a, b = old.attributes.get(name), new.attributes.get(name)
        if a is None or b is None or a.type != b.type:
            return False
    absent = [name for name in old.attributes if name not in node.attrs]
    if any(name not in new.attributes and old.attributes[name].default is not None for name in absent):
        return False
    return not any(
        name in new.attributes and new.attributes[name].default != old.attributes[name].default for name in absent
    ) and not any(a.is_required for name, a in new.attributes.items() if name not in node.attrs)


def splice(editor: edit.Editor, root: Graph, owner: Graph, call: Node, function: Function, template: Body) -> list[Node]:
    """Put a function's nodes where a call stands.

    Args:
        editor: the edits of the pass.
        root: the model's graph, or the function, that is edited.
        owner: the graph that holds the call.
        call: the call; it goes.
        function: the function that is called.
        template: the same function, prepared for being copied.

    Returns:
        The new nodes.
    """
    bound: list[Tensor] = [call.inputs[k] if k < len(call.inputs) else Variable.empty() for k in range(len(function.inputs))]
    nodes, results = template.instantiate(bound, editor.names)
    if function.attrs or call.attrs:
        _resolve(nodes, call, function)
    _import_domains(root, function, nodes)
    for new in nodes:
        for body in walk.nested(new) if new._attrs else ():
            body._opset, body._import_domains, body._opset_imported = owner._opset, owner._import_domains, owner._opset_imported
            body._functions = root._functions
    if len(nodes) == 1 and call.name:
        nodes[0].name = call.name
    editor.replace(owner, call, nodes, results[: len(call.outputs)])
    return nodes


def _resolve(nodes: list[Node], call: Node, function: Function) -> None:
    """Replace references to the function's attributes, at any depth, by what the call or the function's defaults say."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        attrs = node.attrs
        for name, value in list(attrs.items()):
            if isinstance(value, AttributeRef):
                given: Any = call.attrs.get(value.name)
                if given is None:
                    given = function.attrs.get(value.name)
                if given is None:
                    del attrs[name]
                else:
                    attrs[name] = given
        for _, body in node.bodies():
            pending.extend(body.nodes)


def _import_domains(root: Graph, function: Function, nodes: list[Node]) -> None:
    """Let the model import the domains that the function's nodes need."""
    versions = root.opset_versions()
    used = {domains.canonical(n.domain) for n in nodes} | {domains.canonical(n.domain) for new in nodes for g in walk.nested(new) for n in g.nodes}
    for entry in function.import_domains or ():
        domain = domains.canonical(entry.domain)
        if domain and domain in used and domain not in versions:
            if root._import_domains is None:
                root.import_domains = [entry]
            else:
                root._import_domains.append(entry)
