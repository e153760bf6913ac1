"""Operator domains: one spelling for each, and the version of it that a graph imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ir.node import ONNX_DOMAINS

if TYPE_CHECKING:
    from onnx_gs.ir import Graph

ML = "ai.onnx.ml"
#: Domains whose operators the ONNX specification defines, so that what they compute is known.
STANDARD = frozenset({"", ML})


def canonical(domain: str | None) -> str:
    """Give the one spelling of a domain: ``""`` for ONNX's own.

    Example:
        >>> canonical("ai.onnx"), canonical(None), canonical("ai.onnx.ml")
        ('', '', 'ai.onnx.ml')
    """
    return "" if domain in ONNX_DOMAINS else str(domain)


def version(graph: Graph, domain: str | None = "") -> int | None:
    """Give the version of a domain that a graph imports; None where it imports none."""
    name = canonical(domain)
    return graph.opset if name == "" else graph.opset_versions().get(name)
