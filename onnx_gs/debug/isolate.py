"""Cut a part out of a model, as a model of its own."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import constness, shape_inference
from onnx_gs.debug.selection import Index, around as _around
from onnx_gs.errors import GraphValueError
from onnx_gs.ir import order, scopes, walk
from onnx_gs.ir.attribute import has_reference
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.copying import Twins, copy_graph, copy_nodes
from onnx_gs.ir.faults import explained
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph
from onnx_gs.ir.names import Names
from onnx_gs.ir.node import Node
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ops import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx_gs.rewrite.graph_pattern import PatternMapping

LOGGER = logging.getLogger("onnx_gs")


def isolate(
    graph: Graph,
    inputs: Iterable[str | Tensor | Node] = (),
    outputs: Iterable[str | Tensor | Node] = (),
    *,
    nodes: Iterable[str | Node] = (),
    op: str | None = None,
    around: str | Tensor | Node | None = None,
    hops: int = 1,
    match: PatternMapping | None = None,
    name: str | None = None,
) -> Graph:
    """Give a graph of its own with the part of a model between some tensors; the model stays as it is.

    The part keeps functions, opsets and metadata; its weights stay where they are, on disk too, and ``Constant`` nodes that it reads come along like
    other weights. What else it needs from outside becomes an input, with dtype and shape: captured values and loop variables where the part lies
    inside a body, and inputs of the model that were not cut off. A weight named as an input becomes an input.

    Args:
        graph: the model.
        inputs: where the part begins: tensors (object, name, or path ``node > body > name``); a node means what it reads. Empty: the model's inputs.
        outputs: where it ends, all in one graph or body; a node means what it produces. Empty: the model's outputs.
        nodes: instead of inputs and outputs: just these nodes, of one graph or body.
        op: instead: all nodes of this operator in the main graph.
        around: instead: the nodes within ``hops`` edges of this node or tensor.
        hops: how far ``around`` reaches.
        match: instead: the nodes of a pattern's match.
        name: of the new graph.

    Raises:
        GraphValueError: something named is not there, or the outputs lie in different bodies.

    Example:
        >>> import numpy as np
        >>> import onnx_gs as gs
        >>> x, h, y = (gs.Variable(n, np.float32, (2,)) for n in "xhy")
        >>> graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y])
        >>> part = isolate(graph, inputs=["h"], outputs=["y"])
        >>> [n.op for n in part.nodes], [t.name for t in part.inputs]
        (['Abs'], ['h'])
    """
    with explained(graph):
        index = Index(graph)
        if nodes or op is not None or around is not None or match is not None:
            home, chosen = _chosen_nodes(index, list(nodes), op, around, hops, match)
            ends, starts = _border(index, home, chosen)
            inputs_given = True
        else:
            wanted_outputs, wanted_inputs = list(outputs), list(inputs)
            found = [f for o in wanted_outputs for f in index.tensors(o, outputs=True)] if wanted_outputs else [index.find(t) for t in graph.outputs]
            starts = [f.tensor for i in wanted_inputs for f in index.tensors(i, outputs=False) if f.tensor is not None]
            inputs_given = bool(wanted_inputs)
            home = _one_home(index, [(f.graph, f.tensor) for f in found if f.tensor is not None])
            ends = list({id(f.tensor): f.tensor for f in found if f.tensor is not None}.values())
            chosen = None
        return _extract(index, home, starts, ends, inputs_given=inputs_given, only=chosen, name=name)


def _chosen_nodes(
    index: Index, nodes: list[str | Node], op: str | None, around: str | Tensor | Node | None, hops: int, match: PatternMapping | None
) -> tuple[Graph, list[Node]]:
    if around is not None:
        return _around(index, around, hops)
    if op is not None:
        chosen = [n for n in index.root.nodes if n.op == op]
        if not chosen:
            raise GraphValueError(f"the main graph has no '{op}' node", fix="give nodes= by path for nodes inside bodies")
        return index.root, chosen
    if match is not None:
        return index.root, _matched(match)
    found = [index.find(n) for n in nodes]
    picked = {id(f.node): f.node for f in found if f.node is not None}
    for f in found:
        if f.tensor is not None:
            picked.update((id(n), n) for n in f.tensor._inputs)
    homes = {id(index.holder[key]): index.holder[key] for key in picked}
    if len(homes) != 1:
        raise GraphValueError("the nodes lie in different bodies", fix="give nodes of one graph or body")
    home = next(iter(homes.values()))
    return home, [n for n in home.nodes if id(n) in picked]


def _matched(match: PatternMapping) -> list[Node]:
    if match.onnx_node is not None:
        return [match.onnx_node]
    return [node for inner in match.values() for node in _matched(inner)]


def _border(index: Index, home: Graph, chosen: list[Node]) -> tuple[list[Tensor], list[Tensor]]:
    """Give what leaves a set of nodes, and what enters it."""
    inside = {id(n) for n in chosen}
    for node in chosen:
        inside.update(id(n) for body in walk.nested(node) if node._attrs for n in body.nodes)
    listed = {id(t) for g in walk.graphs(index.root) for t in g.outputs}
    made = {id(t) for n in chosen for t in n._outputs}

    def leaves(t: Tensor) -> bool:
        readers = [id(u) in inside for u in t._outputs]
        if id(t) in listed or not readers:
            return True
        return not any(readers) if _weight_node(t) is not None else not all(readers)  # who else reads a weight has it without the part

    ends = [t for n in chosen for t in n._outputs if t._name and leaves(t)]
    starts: dict[int, Tensor] = {}
    for node in chosen:
        for t in (*node._inputs, *(scopes.node_captures(node) if node._attrs else ())):
            if t._name and id(t) not in made and not isinstance(t, Constant) and _weight_node(t) is None:
                starts.setdefault(id(t), t)
    return ends, list(starts.values())


def _weight_node(t: Tensor) -> Node | None:
    """Give the ``Constant`` node that a tensor is from; None for other tensors, and where an attribute of a function says the value."""
    node = constness.constant_node(t)
    return node if node is not None and not has_reference(node.attrs) else None


def _one_home(index: Index, ends: Sequence[tuple[Graph, Tensor]]) -> Graph:
    computed = {id(g): g for g, t in ends if not isinstance(t, Constant) and _weight_node(t) is None}
    if len(computed) > 1:
        places = "; ".join(index.places.graph(g) for g in computed.values())
        raise GraphValueError(f"the outputs lie in different bodies: {places}", fix="give outputs of one graph or body")
    return next(iter(computed.values()), index.root)


def _extract(
    index: Index, home: Graph, starts: list[Tensor], ends: list[Tensor], *, inputs_given: bool, only: list[Node] | None, name: str | None
) -> Graph:
    captured = scopes.all_captures(home)
    stop = {id(t) for t in starts}
    needed, entering = _needed(index, home, stop, ends, captured, only)
    unlisted = [t for t in entering if id(t) not in stop]
    if inputs_given and unlisted:
        LOGGER.info("the part also needs %s, which become inputs", [t.name for t in unlisted])
    used = {id(t) for t in entering}
    idle = [t.name for t in starts if id(t) not in used]
    if idle and only is None:
        LOGGER.warning("the outputs do not depend on %s, which therefore do not become inputs", idle)
        starts = [t for t in starts if id(t) in used]
    listed = starts if inputs_given else [t for t in index.root.inputs if home is index.root and (id(t) in used or id(t) in {id(e) for e in ends})]
    borders = list({id(t): t for t in [*listed, *unlisted]}.values())
    inferred = _types(index, [*borders, *ends])
    with collector_paused():
        return _copy_part(index.root, home, needed, borders, ends, name, inferred)


def _needed(
    index: Index, home: Graph, stop: set[int], ends: list[Tensor], captured: dict[int, list[Tensor]], only: list[Node] | None
) -> tuple[list[Node], list[Tensor]]:
    """Give the nodes that the ends depend on, in order, and the tensors that enter them from outside.

    ``Constant`` nodes around the part, such as those of an outer graph, are weights: they come first.
    """
    allowed = None if only is None else {id(n) for n in only}
    taken: dict[int, Node] = {}
    around: dict[int, Node] = {}
    entering: dict[int, Tensor] = {}
    pending = list(reversed(ends))
    seen: set[int] = set()
    while pending:
        t = pending.pop()
        if id(t) in seen or not t._name:
            continue
        seen.add(id(t))
        if id(t) in stop:
            entering[id(t)] = t
            continue
        weight = _weight_node(t)
        if weight is not None:
            (taken if index.holder.get(id(weight)) is home else around)[id(weight)] = weight
            continue
        producers = [p for p in t._inputs if index.holder.get(id(p)) is home and (allowed is None or id(p) in allowed)]
        if not producers:
            if not isinstance(t, Constant):
                entering[id(t)] = t
            continue
        for producer in producers:
            if id(producer) not in taken:
                taken[id(producer)] = producer
                pending.extend(producer._inputs)
                pending.extend(captured.get(id(producer), ()))
    return [*around.values(), *(n for n in home.nodes if id(n) in taken)], list(entering.values())


def _types(index: Index, borders: list[Tensor]) -> dict[int, Tensor]:
    """Give, by ``id``, the inferred twins of those border tensors whose dtype or shape the model does not say; the model stays as it is."""
    missing = [t for t in borders if isinstance(t, Variable) and t.type == "tensor_type" and (t.dtype is None or t.shape is None)]
    if not missing:
        return {}
    root = index.root
    with collector_paused():
        before = _upstream(index, missing)
        twins = Twins(None, scopes.defined_in(before))
        whole = copy_graph(before, twins=twins)
        for graph in walk.graphs(whole):
            order.sort_nodes(graph)
        shape_inference.infer(whole)
    found = {id(t): twins(t) for t in missing}
    for t in missing:
        if found[id(t)].dtype is None:
            found[id(t)].dtype = _dtype_by_schema(root, t)
        if found[id(t)].dtype is None:
            LOGGER.warning("the dtype of '%s' cannot be inferred; set it before the part is saved", t.name)
    return found


def _upstream(index: Index, tensors: Sequence[Tensor]) -> Graph:
    """Give the model with only those nodes of the main graph that tensors at any depth come from; nothing is copied or changed."""
    root = index.root
    captured = scopes.all_captures(root)
    makers: dict[int, Node] = {}
    for t in tensors:
        parent = index.parents.get(id(index.home[id(t)]))
        inside: list[Node] = list(t._inputs) or ([] if parent is None else [parent[1]])  # what a body is given comes from where its node is
        for node in inside:
            lifted = index.lifted(node, root)
            if lifted is not None:
                makers[id(lifted)] = lifted
    read = [t for node in makers.values() for t in (*node._inputs, *captured.get(id(node), ()))]
    needed, _ = _needed(index, root, set(), read, captured, None)
    taken = {*makers, *map(id, needed)}
    shell = object.__new__(type(root))
    shell.__dict__.update(root.__dict__)
    shell.nodes = [node for node in root.nodes if id(node) in taken]
    shell._outputs = []
    return shell


def _dtype_by_schema(root: Graph, t: Tensor) -> Any:
    """Give the dtype of a tensor whose producer has outputs of one type only; None for others."""
    for producer in t._inputs:
        known = schema.of(root, producer)
        formal = known.output(next(k for k, o in enumerate(producer._outputs) if o is t)) if known is not None else None
        if formal is not None and len(formal.types) == 1:
            found = schema.element_type(next(iter(formal.types)))
            return found.public if found is not None else None
    return None


def _copy_part(
    root: Graph, home: Graph, nodes: list[Node], borders: list[Tensor], ends: list[Tensor], name: str | None, inferred: dict[int, Tensor]
) -> Graph:
    local = {id(t) for n in nodes for t in n._outputs}
    for node in nodes:
        for body in walk.nested(node) if node._attrs else ():
            local.update(scopes.locals_of(body))
    twins = Twins(None, local)
    for t in borders:
        twins.made[id(t)] = _as_input(t, inferred)
    kind: type[Graph] = next(k for k in type(root).__mro__ if issubclass(k, Graph) and not issubclass(k, Function))  # a function's part is a graph
    part = kind(name=name or f"{root.name}_part", doc_string=root.doc_string, opset=root.opset, ir_version=root.ir_version,
                      producer_name=root.producer_name, producer_version=root.producer_version)  # fmt: skip
    part._import_domains = list(root._import_domains) if isinstance(root._import_domains, list) else root._import_domains
    part._opset_imported = root._opset_imported
    part.metadata_props = dict(root.metadata_props)
    part.model = root.model.copy() if root.model is not None else None
    shell = object.__new__(type(home))
    shell.__dict__.update(home.__dict__)
    shell.nodes = nodes
    part.nodes = copy_nodes(shell, twins)
    part.inputs = [twins(t) for t in borders]
    part.outputs = [_typed(twins(t), t, inferred) for t in ends]
    for t in (*borders, *ends):
        twins(t).__dict__["_cut_from"] = weakref.ref(t)
    _unproduce_inputs(part)
    _pass_through(part)
    part._share_functions(_used_functions(root, nodes))
    return part


def _as_input(t: Tensor, inferred: dict[int, Tensor]) -> Tensor:
    if isinstance(t, Constant):
        return Variable(t._name, t.dtype, list(t.shape))
    new = t.copy()
    new._default = None
    return _typed(new, t, inferred)


def _typed(twin: Tensor, original: Tensor, inferred: dict[int, Tensor]) -> Tensor:
    """Write down on a copy what was inferred for its original."""
    found = inferred.get(id(original))
    if found is not None:
        if isinstance(found, Variable) and isinstance(twin, Variable) and found.type != "tensor_type":
            twin.value_type = found.value_type
            return twin
        twin.dtype = found.dtype if twin.dtype is None else twin.dtype
        twin.shape = found.shape if twin.shape is None else twin.shape
    return twin


def _unproduce_inputs(part: Graph) -> None:
    """A node that is needed for another of its outputs makes what is an input now under a name that nothing reads."""
    names: Names | None = None
    for t in part.inputs:
        for producer in list(t._inputs):
            names = names or Names(part)
            for at, out in enumerate(list(producer._outputs)):
                if out is t:
                    unused = Variable(names.fresh(f"{t.name}_unused"), t.dtype, t.shape)
                    unused.value_type = t.value_type if isinstance(t, Variable) else unused.value_type
                    producer._outputs[at] = unused


def origin(t: Tensor) -> Tensor | None:
    """Give the tensor of the model that an input or output of a part was cut from; None where that is gone or not known."""
    cut_from = t.__dict__.get("_cut_from")
    return None if cut_from is None else cut_from()


def _pass_through(part: Graph) -> None:
    """An output that is an input too gets an Identity, as not every runtime takes it as it is."""
    given = {id(t) for t in part.inputs}
    for at, t in enumerate(part.outputs):
        if id(t) in given:
            out = Variable(f"{t.name}_out", t.dtype, t.shape)
            out.value_type = t.value_type if isinstance(t, Variable) else out.value_type
            out.__dict__["_cut_from"] = t.__dict__.get("_cut_from")
            part.nodes.append(Node("Identity", inputs=[t], outputs=[out]))
            part.outputs[at] = out


def _used_functions(root: Graph, nodes: list[Node]) -> list:  # type: ignore[type-arg]
    """List the functions that nodes call, also through other functions and bodies, in the model's order."""
    if not root.functions:
        return []
    by_key = {f.key: f for f in root.functions}
    used: set[tuple[str, str, str]] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        for body in walk.bodies(node) if node._attrs else ():
            pending.extend(body.nodes)
        key = (node.domain or "", node.op, node.overload if by_key else "")
        if key in by_key and key not in used:
            used.add(key)
            pending.extend(by_key[key].nodes)
    return [f for f in root.functions if f.key in used]
