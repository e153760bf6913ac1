"""One self-contained HTML page: data, layout library and script inside; nothing is fetched."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from onnx_gs.viewer.model import Marks, difference_marks, finding_marks, model_data, node_numbers, pair_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_gs.ir.graph import Graph


def page(
    graph: Graph,
    other: Graph | None = None,
    *,
    titles: tuple[str, str] = ("", ""),
    weights: bool = False,
    findings: tuple[Iterable[tuple[str, Any]], Iterable[tuple[str, Any]]] = ((), ()),
) -> str:
    """Give the page of a model, or of two side by side with their differences marked.

    Args:
        graph: the model.
        other: what it became.
        titles: what the models are called.
        weights: also show statistics of the weights, which reads them.
        findings: of each model, ``("blocker" or "warning", finding)`` from ``trt.check``.

    Example:
        >>> import onnx_gs as gs
        >>> x, y = gs.Variable("x"), gs.Variable("y")
        >>> page(gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y])).startswith("<!doctype html>")
        True
    """
    marks = Marks()
    finding_marks(graph, findings[0], marks)
    data: dict[str, Any] = {}
    if other is not None:
        from onnx_gs.debug.diff import diff

        theirs = Marks()
        finding_marks(other, findings[1], theirs)
        found = diff(graph, other)
        difference_marks(found.changes, marks, theirs)
        data["pairs"] = pair_numbers(found.pairs, node_numbers(graph), node_numbers(other))
        data["differences"] = len(found.changes)
    data["models"] = [model_data(graph, title=titles[0], weights=weights, marks=marks)]
    if other is not None:
        data["models"].append(model_data(other, title=titles[1], weights=weights, marks=theirs))
    return _document(data, " → ".join(model["title"] for model in data["models"]))


def _document(data: dict[str, Any], title: str) -> str:
    # A "<" inside a string is the only thing that could end the script element early.
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str).replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{_asset('view.css')}</style></head>\n<body>\n"
        f'<script type="application/json" id="data">{content}</script>\n'
        f"<!--\n{_asset('dagre.LICENSE.txt')}-->\n<script>\n{_asset('dagre.min.js')}\n</script>\n<script>\n{_asset('view.js')}</script>\n</body></html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("onnx_gs.viewer").joinpath(f"assets/{name}").read_text(encoding="utf-8")
