"""A graph, or what is around a node, as an SVG picture: for notebooks, and without any other package."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_gs.debug.selection import Index, around as _around
from onnx_gs.ir import dtypes, order, scopes
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

#: A graph of more nodes is shown as a table.
MOST_NODES = 60
ROW, GAP, HEIGHT, LETTER = 74, 18, 36, 7.2


@dataclass(frozen=True)
class Drawing:
    """A picture; notebooks show it by themselves.

    Attributes:
        svg: its text.
    """

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def draw(graph: Graph, around: str | Tensor | Node | None = None, hops: int = 2) -> Drawing:
    """Draw a graph, or the nodes around one of its nodes or tensors.

    Args:
        graph: the model.
        around: a node or tensor, by name, path or object; None draws the whole graph.
        hops: how many edges the neighborhood reaches.

    Raises:
        GraphValueError: there is no such node or tensor.

    Example:
        >>> import onnx_gs as gs
        >>> x, h, y = gs.Variable("x"), gs.Variable("h"), gs.Variable("y")
        >>> graph = gs.Graph([gs.Node("Neg", "first", inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y])
        >>> picture = draw(graph, around="first", hops=0)
        >>> "Neg" in picture.svg, "Abs" in picture.svg
        (True, False)
    """
    if around is None:
        return Drawing(_Layout(graph, _sorted(graph)).svg())
    home, chosen = _around(Index(graph), around, hops)
    kept = {id(n) for n in chosen}
    return Drawing(_Layout(home, [n for n in _sorted(home) if id(n) in kept]).svg())


def _sorted(graph: Graph) -> list[Node]:
    shell = object.__new__(type(graph))
    shell.__dict__.update(graph.__dict__)
    order.sort_nodes(shell)
    return shell.nodes


def summary(graph: Graph) -> str:
    """Give a table of a graph's inputs, outputs and operators, as HTML, for graphs that are too large to draw."""
    counts = Counter(n.op if n.is_onnx else f"{n.domain}::{n.op}" for n in graph.nodes).most_common(20)
    rows = [
        ("graph", f"{graph.name}, {len(graph.nodes):,} nodes, opset {graph.opset}"),
        ("inputs", ", ".join(f"{t.name} {_type(t)}" for t in graph.inputs[:20])),
        ("outputs", ", ".join(f"{t.name} {_type(t)}" for t in graph.outputs[:20])),
        ("operators", ", ".join(f"{op} × {count:,}" for op, count in counts)),
    ]
    cells = "".join(f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{escape(text)}</td></tr>' for name, text in rows)
    return f"<table>{cells}</table>"


@dataclass
class _Box:
    title: str
    lines: list[str]
    kind: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(50.0, *(len(text) * LETTER + 18 for text in (self.title, *self.lines)))


class _Layout:
    """Layers from top to bottom: a node stands below what it reads; within a layer, near its neighbors."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.boxes: list[_Box] = []
        self.edges: list[tuple[int, int, str]] = []
        source: dict[int, int] = {}
        captured = scopes.all_captures(graph)
        returned = {id(t) for t in graph.outputs}
        for t in graph.inputs:
            if any(t is used for n in nodes for used in (*n.inputs, *captured.get(id(n), ()))) or id(t) in returned:
                source[id(t)] = self._box(_shorten(t.name), [_type(t)], "value")
        for node in nodes:
            at = self._node(node)
            read = [*node.inputs, *captured.get(id(node), ())]
            for t in {id(t): t for t in read if t.name and not isinstance(t, Constant)}.values():
                if id(t) not in source:  # made by a node that is not drawn
                    source[id(t)] = self._box(_shorten(t.name), [_type(t)], "away")
                self._edge(source[id(t)], at, t)
            source.update((id(t), at) for t in node.outputs if t.name)
        for t in graph.outputs:
            if id(t) in source and not isinstance(t, Constant):
                at = self._box(_shorten(t.name), [_type(t)], "value")
                self._edge(source[id(t)], at, t)

    def _box(self, title: str, lines: list[str], kind: str) -> int:
        self.boxes.append(_Box(title, [line for line in lines if line], kind))
        return len(self.boxes) - 1

    def _node(self, node: Node) -> int:
        inside = ", ".join(name for name, _ in node.bodies())
        stored = next((_type(t) for t in node.inputs if isinstance(t, Constant)), "")
        line = f"with {inside}" if inside else stored or _shorten(node.name, 20)
        return self._box(node.op if node.is_onnx else f"{node.domain}::{node.op}", [line], "node")

    def _edge(self, start: int, end: int, t: Tensor) -> None:
        self.edges.append((start, end, f"{t.name} {_type(t)}"))
        self.boxes[end].layer = max(self.boxes[end].layer, self.boxes[start].layer + 1)

    def svg(self) -> str:
        if not self.boxes:
            return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>'
        layers: dict[int, list[int]] = {}
        self._lower_inputs()
        for at, box in enumerate(self.boxes):
            layers.setdefault(box.layer, []).append(at)
        self._arrange(layers)
        width = max(b.x + b.width / 2 for b in self.boxes) + GAP
        height = max(b.y for b in self.boxes) + HEIGHT + GAP
        style = 'font-family="sans-serif" font-size="11"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" {style}>'
        return head + "".join(self._edge_svg(e) for e in self.edges) + "".join(map(_box_svg, self.boxes)) + "</svg>"

    def _lower_inputs(self) -> None:
        """Put what nothing on the page makes right above its first reader."""
        first: dict[int, int] = {}
        for start, end, _ in self.edges:
            first[start] = min(first.get(start, self.boxes[end].layer), self.boxes[end].layer)
        for at, box in enumerate(self.boxes):
            if box.layer == 0 and at in first:
                box.layer = first[at] - 1

    def _arrange(self, layers: dict[int, list[int]]) -> None:
        near: dict[int, list[int]] = {}
        for start, end, _ in self.edges:
            near.setdefault(end, []).append(start)
            near.setdefault(start, []).append(end)
        widest = max(sum(self.boxes[at].width + GAP for at in members) for members in layers.values())
        for sweep in range(6):
            for layer in sorted(layers, reverse=bool(sweep % 2)):
                members = layers[layer]

                def middle(at: int, layer: int = layer, sweep: int = sweep) -> float:
                    # First by what stands above, whose places are known, then by what stands below, and so on.
                    side = [self.boxes[o].x for o in near.get(at, ()) if sweep == 0 or (self.boxes[o].layer < layer) != bool(sweep % 2)]
                    return sum(side) / len(side) if side else self.boxes[at].x

                wanted = {at: middle(at) for at in members}
                members.sort(key=wanted.__getitem__)
                self._place(members, wanted, widest, layer)

    def _place(self, members: list[int], wanted: dict[int, float], widest: float, layer: int) -> None:
        """Place the members of a layer from left to right, each as near to where it wants to be as those before it allow."""
        room = sum(self.boxes[at].width + GAP for at in members)
        left: float = GAP
        for at in members:
            box = self.boxes[at]
            latest = widest + GAP - room  # so that the rest still fits
            box.x = max(left, min(wanted[at] - box.width / 2, max(latest, left))) + box.width / 2
            box.y = GAP + layer * ROW
            left = box.x + box.width / 2 + GAP
            room -= box.width + GAP

    def _edge_svg(self, edge: tuple[int, int, str]) -> str:
        start, end, text = self.boxes[edge[0]], self.boxes[edge[1]], edge[2]
        y, z = start.y + HEIGHT, end.y
        curve = f"M{start.x:.0f},{y:.0f} C{start.x:.0f},{(y + z) / 2:.0f} {end.x:.0f},{(y + z) / 2:.0f} {end.x:.0f},{z:.0f}"
        tip = f"M{end.x - 3:.0f},{z - 5:.0f} L{end.x:.0f},{z:.0f} L{end.x + 3:.0f},{z - 5:.0f}"
        return f'<path d="{curve} {tip}" fill="none" stroke="#8a94a6"><title>{escape(text)}</title></path>'


def _box_svg(box: _Box) -> str:
    fill, ink, radius, dash = {
        "node": ("#2f5d9b", "#fff", 4, ""), "value": ("#eef1f6", "#1d2330", 14, ""), "away": ("#fff", "#667085", 14, ' stroke-dasharray="4 3"'),
    }[box.kind]  # fmt: skip
    x, y = box.x - box.width / 2, box.y
    middle = y + (15 if box.lines else 22)
    parts = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{HEIGHT}" rx="{radius}" fill="{fill}" stroke="#8a94a6"{dash}/>',
        f'<text x="{box.x:.0f}" y="{middle:.0f}" text-anchor="middle" fill="{ink}" font-weight="600">{escape(box.title)}</text>',
    ]
    small = f'<text x="{box.x:.0f}" y="{y + 29:.0f}" text-anchor="middle" fill="{ink}" font-size="10" opacity=".85">'
    parts += [f"{small}{escape(text)}</text>" for text in box.lines]
    return "".join(parts)


def _shorten(text: str, length: int = 26) -> str:
    return text if len(text) <= length else f"{text[: length // 2 - 1]}…{text[-length // 2 + 1 :]}"


def _type(t: Tensor) -> str:
    known = dtypes.of(t)
    if known is None and t.shape is None:
        return ""
    name = "?" if known is None else "string" if known is dtypes.STRING else known.numpy.name
    return _shorten(name + ("" if t.shape is None else "[" + ", ".join("?" if d in {None, ""} else str(d) for d in t.shape) + "]"), 34)
