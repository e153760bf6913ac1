"""Chains of nodes with one reader each, put beside each other: which nodes of two such chains belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ir.node import ONNX_DOMAINS

if TYPE_CHECKING:
    from onnx_gs.ir.node import Node

FAR = 16  # how far to look along a chain for where it runs alike again


def operator(node: Node) -> bytes:
    """Give a node's operator with its domain and overload, to compare and to hash."""
    return f"{'' if node.domain in ONNX_DOMAINS else node.domain}|{node.op}|{node.overload}".encode()


def chain(node: Node, free: dict[int, Node], seen: set[int]) -> list[Node]:
    """List the free nodes behind one, each the only reader of the one before, up to one that was seen before."""
    found: list[Node] = []
    while True:
        readers = {id(n): n for t in node._outputs for n in t._outputs}
        if len(readers) != 1 or not readers.keys() <= free.keys() or not seen.isdisjoint(readers):
            break
        node = next(iter(readers.values()))
        seen.add(id(node))
        found.append(node)
    return found


def aligned(ours: list[Node], theirs: list[Node], matched: dict[int, Node]) -> list[tuple[Node, Node]]:
    """Pair the nodes of two chains that end at one place so that the fewest are removed, added or exchanged; nothing where that takes many.

    The furthest that each diagonal reaches with so many edits (Landau and Vishkin), since few edits are the rule.
    """
    if not ours or not theirs:
        return []
    after = [{id(n): n for t in chain[-1]._outputs for n in t._outputs} for chain in (ours, theirs)]
    if {id(matched.get(key)) for key in after[0]} != set(after[1]):
        return []
    a, b = [operator(n) for n in ours], [operator(n) for n in theirs]
    reach: list[dict[int, tuple[int, int]]] = []  # by edits, by diagonal: how far in a, and from which diagonal
    for edits in range(min(FAR, max(len(a), len(b))) + 1):
        row: dict[int, tuple[int, int]] = {}
        for diagonal in range(-edits, edits + 1):
            if edits:
                last = reach[-1]
                steps = [(last[diagonal + d][0] + step, diagonal + d) for d, step in ((0, 1), (-1, 0), (1, 1)) if diagonal + d in last]
                at, origin = max(steps, default=(-1, 0))
            else:
                at, origin = 0, 0
            at = min(at, len(a), len(b) - diagonal)
            if at < 0 or at + diagonal < 0:
                continue
            while at < len(a) and at + diagonal < len(b) and a[at] == b[at + diagonal]:
                at += 1
            row[diagonal] = (at, origin)
        reach.append(row)
        if row.get(len(b) - len(a), (0, 0))[0] == len(a):
            return _walked_back(ours, theirs, reach)
    return []


def _walked_back(ours: list[Node], theirs: list[Node], reach: list[dict[int, tuple[int, int]]]) -> list[tuple[Node, Node]]:
    pairs: list[tuple[Node, Node]] = []
    diagonal, end = len(theirs) - len(ours), len(ours)
    for edits in range(len(reach) - 1, -1, -1):
        origin = reach[edits][diagonal][1]
        begin = reach[edits - 1][origin][0] if edits else 0
        start = begin + (1 if origin >= diagonal and edits else 0)  # where the run of equal nodes behind the edit begins
        pairs.extend((ours[at], theirs[at + diagonal]) for at in range(start, end))
        if edits and origin == diagonal:  # exchanged
            pairs.append((ours[begin], theirs[begin + diagonal]))
        diagonal, end = origin, begin
    return pairs[::-1]


def realigned(ours: list[Node], theirs: list[Node]) -> list[tuple[Node, Node]]:
    """Give the first nodes from which two chains run alike, when a few of one or of both are left out."""
    if not ours or not theirs:
        return []
    short = len(ours) < FAR and len(theirs) < FAR
    for least in (2, 1) if short else (2,):
        for left_out in range(1, FAR // 2):
            for mine in range(left_out + 1):
                tail, other = ours[mine:], theirs[left_out - mine :]
                length = min(len(tail), len(other), FAR // 2)
                if length >= least and all(operator(x) == operator(y) for x, y in zip(tail[:length], other)):
                    return [(tail[0], other[0])]
    return []
