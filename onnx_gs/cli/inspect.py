"""Show what a model holds: inputs, outputs, opsets, operators, bodies, functions, and weights by size.

Weights are not read, so this is quick on models of any size, and a data file that is missing is only warned of. Bodies of one form are one row, and
long lists are cut, unless --all is given; the JSON object has everything but the smaller weights and the nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.cli import models, options as shared
from onnx_gs.cli.report import counted, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from onnx_gs.cli.report import Session
    from onnx_gs.graph import Graph
    from onnx_gs.io.regions import AbsentFile
    from onnx_gs.ir import Constant, Node, Tensor

WEIGHTS = 10  # shown without --weights
ROWS = 30  # of other tables, without --all
NAMES = 6  # of a node's inputs or outputs
DEPTH = 12  # of bodies in bodies that are shown by indentation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    shared.add_model(parser)
    parser.add_argument("--weights", action="store_true", help="list all weights, not only the largest")
    parser.add_argument("--all", action="store_true", help="list all operators, functions and bodies, each body by its full path")
    parser.add_argument("--nodes", action="store_true", help="list all nodes, those in bodies and functions included")


def run(options: argparse.Namespace, session: Session) -> int:
    """Show the model."""
    absent: dict[str, AbsentFile] = {}
    graph = models.read(options.model, session, absent)
    result = describe(graph, largest=None if options.weights else WEIGHTS, nodes=options.nodes)
    if options.model != "-":
        result["bytes"] = Path(options.model).stat().st_size
    warnings = [f"data file '{location}' is missing or cut short, and other commands need it: {file.why.what}" for location, file in absent.items()]
    if absent:
        result["missing_data"] = [{"file": location, "reason": file.why.what} for location, file in absent.items()]
    session.put(result=result, warnings=warnings)
    session.quiet = False  # what this command prints is what it was asked for
    show(result, session, options.model, everything=options.all)
    for warning in warnings:
        session.say(f"warning: {warning}", style="yellow")
    return 0


def describe(graph: Graph, *, largest: int | None = WEIGHTS, nodes: bool = False) -> dict[str, Any]:
    """Give the facts about a model as plain data.

    Args:
        graph: the model's graph.
        largest: how many weights to list, the largest first; None for all.
        nodes: list every node.
    """
    from onnx_gs.ir import show as labels, walk

    places = labels.Places(graph)
    every = list(walk.nodes(graph, functions=True))
    ops = Counter((node.domain or "ai.onnx", node.op) for _, node in every)
    stored = sorted(weights(graph), key=lambda weight: -weight[0])
    facts: dict[str, Any] = {
        "name": graph.name,
        "ir_version": graph.ir_version,
        "producer": " ".join(filter(None, (graph.producer_name, graph.producer_version))),
        "opsets": {domain or "ai.onnx": version for domain, version in graph.opset_versions().items()},
        "inputs": [_value(t) for t in graph.inputs],
        "outputs": [_value(t) for t in graph.outputs],
        "node_count": len(every),
        "main_node_count": len(graph.nodes),
        "ops": [{"domain": domain, "op": op, "count": n} for (domain, op), n in sorted(ops.items(), key=lambda item: (-item[1], item[0]))],
        "bodies": _bodies(places, every),
        "functions": [{"domain": f.domain, "name": f.name, **_extent(f)} for f in graph.functions],
        "weight_count": len(stored),
        "weight_bytes": sum(weight[0] for weight in stored),
        "weights": [_weight(*weight) for weight in (stored if largest is None else stored[:largest])],
    }
    if nodes:
        facts["nodes"] = [_node(places, owner, node) for owner, node in every]
    return facts


def _value(tensor: Tensor) -> dict[str, Any]:
    fact: dict[str, Any] = {"name": tensor.name, "dtype": _dtype(tensor), "shape": None if tensor.shape is None else list(tensor.shape)}
    if getattr(tensor, "type", "tensor_type") != "tensor_type":
        fact["type"] = tensor.type.removesuffix("_type")
    if getattr(tensor, "default", None) is not None:
        fact["has_default"] = True
    return fact


def _dtype(tensor: Tensor) -> str | None:
    from onnx_gs.ir import dtypes

    known = dtypes.of(tensor)
    if known is None:
        return None
    return "string" if known is dtypes.STRING else known.numpy.name


def _bodies(places: Any, every: Sequence[tuple[Any, Node]]) -> list[dict[str, Any]]:
    depths: dict[int, int] = {}
    found = []
    for owner, node in every:
        for name, body in node.bodies():
            depth = depths[id(body)] = depths.get(id(owner), 0) + 1
            path = f"{places.node(owner, node)} > {name}"
            label = path.removeprefix(f"{places.graph(owner)} > ")
            found.append({"path": path, "depth": depth, "label": label, "op": node.op, "attribute": name, **_extent(body)})
    return found


def _extent(graph: Any) -> dict[str, int]:
    return {"node_count": len(graph.nodes), "inputs": len(graph.inputs), "outputs": len(graph.outputs)}


def _node(places: Any, owner: Any, node: Node) -> dict[str, Any]:
    return {
        "path": places.graph(owner),
        "name": node.name,
        "op": node.op,
        "domain": node.domain or "",
        "inputs": [t.name for t in node.inputs],
        "outputs": [t.name for t in node.outputs],
        "attributes": {name: _attribute(value) for name, value in node.attrs.items()},
    }


def _attribute(value: Any) -> Any:
    """Give an attribute's value where it is short and plain, else what kind of thing it is."""
    plain = (str, int, float)
    if isinstance(value, plain) or (isinstance(value, (list, tuple)) and len(value) <= 16 and all(isinstance(v, plain) for v in value)):
        return value
    if hasattr(value, "nodes"):
        return f"<graph of {len(value.nodes)} nodes>"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<tensor {_dtype(value)} {list(value.shape)}>"
    return f"<{type(value).__name__}>"


def weights(graph: Graph) -> list[tuple[int, Constant, str]]:
    """List every weight once, with its bytes as stored and where: initializers, also unused ones, and the tensors in ``Constant`` nodes."""
    from onnx_gs.ir import Constant, dtypes, walk

    found: dict[int, tuple[Constant, str]] = {}
    for owner in walk.graphs(graph, functions=True):
        unused = owner._record.unused if owner._record is not None else []  # stored all the same
        for tensor in (*walk.tensors(owner), *unused):
            if isinstance(tensor, Constant):
                found.setdefault(id(tensor), (tensor, "initializer"))
        for node in owner.nodes:
            if node.op == "Constant":
                value = node.attrs.get("value", node.attrs.get("sparse_value"))
                if isinstance(value, Constant):
                    found.setdefault(id(value), (value, f"Constant node '{node.name}'" if node.name else "Constant node"))

    def stored(tensor: Constant) -> int:
        known = dtypes.of(tensor)
        return known.nbytes(math.prod(tensor.shape)) if known is not None and known.bits else tensor.nbytes

    return [(stored(tensor), tensor, where) for tensor, where in found.values()]


def _weight(size: int, tensor: Constant, where: str) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": _dtype(tensor), "shape": list(tensor.shape), "bytes": size, "where": where}


# -- for people -----------------------------------------------------------------------------------


def show(result: dict[str, Any], session: Session, path: str, *, everything: bool = False) -> None:
    """Print the facts as tables; ``everything`` cuts none."""
    limit = None if everything else ROWS
    rows: list[tuple[Any, ...]]
    opsets = ", ".join(f"{domain} {version}" for domain, version in result["opsets"].items())
    session.say(f"{path}: graph '{result['name']}'" + (f", {size(result['bytes'])}" if "bytes" in result else ""), style="bold")
    session.say(f"IR version {result['ir_version']}, opsets {opsets}" + (f", made by {result['producer']}" if result["producer"] else ""))
    session.say()
    for title in ("inputs", "outputs"):
        _show_facts(title.capitalize(), result[title], session)
    constants = sum(op["count"] for op in result["ops"] if (op["domain"], op["op"]) == ("ai.onnx", "Constant"))
    inside = result["node_count"] - result["main_node_count"]
    parts = [counted(result["node_count"], "node")]
    parts += [f"{constants:,} of them Constant"] if constants else []
    parts += [f"{inside:,} in bodies and functions"] if inside else []
    session.table(
        f"Operators ({', '.join(parts)})",
        [">nodes", "operator"],
        [(f"{op['count']:,}", op["op"] if op["domain"] == "ai.onnx" else f"{op['domain']}::{op['op']}") for op in result["ops"]],
        limit=limit,
    )
    if result["bodies"]:
        bodies = result["bodies"]
        rows = [(body["node_count"], body["inputs"], body["outputs"], body["path"]) for body in bodies] if everything else _alike(bodies)
        session.table(f"Bodies ({len(bodies):,})", [">nodes", ">inputs", ">outputs", "where"], rows, limit=limit, more="--all lists each")
    if result["functions"]:
        rows = [(f["node_count"], f["inputs"], f["outputs"], f"{f['domain']}::{f['name']}") for f in result["functions"]]
        session.table("Functions", [">nodes", ">inputs", ">outputs", "function"], rows, limit=limit)
    session.table(
        f"Weights ({result['weight_count']:,}, {size(result['weight_bytes'])})",
        [">bytes", "type", "shape", "stored as", "name"],
        [(size(w["bytes"]), w["dtype"], _shape_text(w["shape"]), w["where"], w["name"]) for w in result["weights"]],
    )
    if result["weight_count"] > len(result["weights"]):
        session.say(f"  … and {result['weight_count'] - len(result['weights']):,} smaller ones (--weights lists all)")
    if "nodes" in result:
        nodes = result["nodes"]
        rows = [(node["op"], node["name"], _listed(node["inputs"]), _listed(node["outputs"]), node["path"]) for node in nodes]
        session.table("Nodes", ["operator", "name", "inputs", "outputs", "graph"], rows)
        if any(max(len(node["inputs"]), len(node["outputs"])) > NAMES for node in nodes):
            session.say(f"  … of more than {NAMES} names the first are listed (--json has all)")


def _listed(names: list[str]) -> str:
    """Join names, the first of many."""
    return ", ".join(names) if len(names) <= NAMES else f"{', '.join(names[: NAMES - 1])}, … {len(names) - NAMES + 1:,} more"


def _alike(bodies: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Show bodies indented by how deep they lie; those of one form at one depth are one row."""
    kinds: dict[tuple[Any, ...], list[str]] = {}
    for body in bodies:
        form = tuple(body[key] for key in ("depth", "op", "attribute", "node_count", "inputs", "outputs"))
        kinds.setdefault(form, []).append(body["label"])
    return [
        (*extent, "  " * min(depth - 1, DEPTH) + labels[0] + (f" and {len(labels) - 1:,} more like it" if len(labels) > 1 else ""))
        for (depth, _, _, *extent), labels in kinds.items()
    ]


def show_values(title: str, tensors: Sequence[Tensor], session: Session) -> None:
    """Print the names, types and shapes of a graph's inputs or outputs as a table."""
    _show_facts(title, [_value(t) for t in tensors], session)


def _show_facts(title: str, facts: list[dict[str, Any]], session: Session) -> None:
    session.table(title, ["type", "shape", "name"], [(_type_text(fact), _shape_text(fact["shape"]), fact["name"]) for fact in facts])


def _type_text(fact: dict[str, Any]) -> str:
    text = fact["dtype"] or "?"
    text = f"{fact['type']} of {text}" if "type" in fact else text
    return f"{text}, has a default" if fact.get("has_default") else text


def _shape_text(shape: list[Any] | None) -> str:
    return "unknown rank" if shape is None else "scalar" if not shape else " × ".join("?" if dim in {None, ""} else str(dim) for dim in shape)
