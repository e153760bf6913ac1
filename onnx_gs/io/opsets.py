"""Which operator sets a graph imports, and needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx

from onnx_gs.io.fields import put
from onnx_gs.ir import walk
from onnx_gs.ir.node import ONNX_DOMAINS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_gs.ir.graph import Graph


def used_domains(graph: Graph) -> dict[str, None]:
    """Give the domains of the nodes of a graph and its bodies, in order of first use, ONNX's own as ``""``."""
    found: dict[Any, None] = {}
    for g in walk.graphs(graph):
        found.update(dict.fromkeys([node.domain for node in g.nodes]))
    return dict.fromkeys("" if domain in ONNX_DOMAINS else str(domain) for domain in found)


def write_opsets(target: Any, graph: Graph, used: Mapping[str, None]) -> None:
    """Write the opset imports of a graph, and those that its nodes need beside them, into a repeated field."""
    versions = graph.opset_versions()
    wanted: list[tuple[str | None, int]] = []
    present: set[str] = set()
    for entry in graph.import_domains or ():
        domain = "" if entry.domain in ONNX_DOMAINS else entry.domain
        unset = hasattr(entry, "HasField") and not entry.HasField("domain")
        wanted.append((None if unset else entry.domain, versions[domain]))
        present.add(domain)
    if "" not in present and ("" in used or not wanted or graph._opset != graph._opset_imported):
        wanted.append(("", graph.opset))
        present.add("")
    wanted.extend((domain, 1) for domain in used if domain not in present)
    if [(e.domain if e.HasField("domain") else None, e.version) for e in target] == wanted:
        return
    former = list(graph.import_domains or ())
    kept = onnx.FunctionProto()
    for at, (domain, version) in enumerate(wanted):
        message = kept.opset_import.add()
        if at < len(former) and isinstance(former[at], onnx.OperatorSetIdProto):
            message.CopyFrom(former[at])
        elif domain is not None:
            message.domain = domain
        put(message, "version", version)
    del target[:]
    target.extend(kept.opset_import)
