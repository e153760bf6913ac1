"""The verbs of graph editing: replace, insert, remove, replace uses. Public names survive, and node lists change in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ir import walk
from onnx_gs.ir.names import Names
from onnx_gs.ir.node import Node
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.synchronized_list import edge_log
from onnx_gs.ir.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir.graph import Graph


class StopRewriting(Exception):  # noqa: N818 - not an error: a pass was asked to stop between two rewrites
    """Ends a pass between two rewrites; what was edited so far is whole and is kept."""


class Editor:
    """The edits of one pass on a model.

    Edges change at once; node lists change at ``commit()``, in one pass a graph, so that any number of edits is linear. Used as a context
    manager it commits on success.

    Names and types of the outputs of the model (and of functions) always survive; bodies' outputs are internal.

    Args:
        root: the model's graph, or the function, to edit; its bodies are included.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, h, y = Variable("x"), Variable("h"), Variable("y")
        >>> graph = Graph([Node("Identity", inputs=[x], outputs=[h]), Node("Neg", inputs=[h], outputs=[y])], [x], [y])
        >>> with Editor(graph) as edit:
        ...     edit.replace(graph, graph.nodes[0], [], [x])
        >>> [n.op for n in graph.nodes], graph.nodes[0].inputs[0].name
        (['Neg'], 'x')
    """

    def __init__(self, root: Graph) -> None:
        """Index who holds what; linear in the model."""
        self.root = root
        self.holder: dict[int, Graph] = {}
        self._listed: dict[int, list[Graph]] = {}
        self._formal: dict[int, Graph] = {}
        self._known: list[Node] = []  # nodes stay alive while their ids are keys
        self._before: dict[int, list[Node]] = {}
        self._after: dict[int, list[Node]] = {}
        self._first: dict[int, list[Node]] = {}
        self._dead: set[int] = set()
        self._touched: dict[int, Graph] = {}
        self._has_new = False
        self._names: Names | None = None
        self._became: dict[int, tuple[Tensor, Tensor]] = {}  # a tensor that took a public name is another object since
        self._adopt_graph(root)

    def _adopt_graph(self, root: Graph) -> None:
        for graph in walk.graphs(root):
            for node in graph.nodes:
                self.holder[id(node)] = graph
            self._known.extend(graph.nodes)
            for t in graph.outputs:
                listed = self._listed.setdefault(id(t), [])
                if not any(g is graph for g in listed):
                    listed.append(graph)
            for t in graph.inputs:
                self._formal[id(t)] = graph

    @property
    def names(self) -> Names:
        """Fresh names for this model."""
        if self._names is None:
            self._names = Names(self.root)
        return self._names

    def __enter__(self) -> Editor:
        """Give the editor."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Commit, unless an error is on its way."""
        if kind is None or issubclass(kind, StopRewriting):
            self.commit()

    # -- asking -----------------------------------------------------------------------------------

    def listed_by(self, tensor: Tensor) -> list[Graph]:
        """List the graphs that have this tensor as an output."""
        return self._listed.get(id(tensor), [])

    def is_used(self, tensor: Tensor) -> bool:
        """Say whether a node reads the tensor or a graph lists it as an output."""
        return bool(tensor._outputs) or bool(self._listed.get(id(tensor)))

    def home(self, tensor: Tensor) -> Graph | None:
        """Give the graph that defines a tensor: as its input, or by a node; None for weights and strangers."""
        for producer in tensor._inputs:
            found = self.holder.get(id(producer))
            if found is not None:
                return found
        return self._formal.get(id(tensor))

    def is_input(self, tensor: Tensor) -> bool:
        """Say whether a graph has the tensor as an input."""
        return id(tensor) in self._formal

    @property
    def is_pending(self) -> bool:
        """Say whether edits wait for ``commit``."""
        return bool(self._touched)

    @property
    def has_new(self) -> bool:
        """Say whether edits since the last ``commit()`` put a node in."""
        return self._has_new

    def current(self, tensor: Tensor) -> Tensor:
        """Give the tensor that stands for this one: itself, or the output of the model whose name it took."""
        while id(tensor) in self._became and self._became[id(tensor)][0] is tensor:
            tensor = self._became[id(tensor)][1]
        return tensor

    # -- edges ------------------------------------------------------------------------------------

    def replace_uses(self, old: Tensor, new: Tensor) -> None:
        """Let everything that reads or returns ``old`` read or return ``new``, inside bodies too.

        Where the model (or a function) returns ``old``, its name stays: the producer of ``new`` gives it, or an ``Identity`` does, which then
        stands where the producer of ``old`` stood.

        Args:
            old: the tensor to get rid of.
            new: the tensor that has the same values.
        """
        new = self.current(new)
        if old is new:
            return
        for graph in list(self.listed_by(old)):
            if graph is self.root:
                kept = self._keep_public(old, new, graph)
                if kept is old:
                    return
            else:
                self._return_instead(graph, old, new)
        move_consumers(old, new)

    def _keep_public(self, old: Tensor, new: Tensor, graph: Graph) -> Tensor:
        """Let ``old``, an output of the root, have the values of ``new``; give whichever of the two the readers shall use."""
        if isinstance(new, Constant) and not self.listed_by(new):
            values, origin, export = new._values, new._origin, new._export_dtype
            self._unproduce(old)
            old.to_constant(values)
            old._origin, old._export_dtype = origin, export
            move_consumers(new, old)
            self._became[id(new)] = (new, old)
            return old
        producer = next((p for p in new._inputs if self.holder.get(id(p)) is graph), None)
        if producer is not None and not self.listed_by(new) and id(new) not in self._formal:
            self._unproduce(old)
            position = next(i for i, t in enumerate(producer._outputs) if t is new)
            _fill_type(old, new)
            producer._outputs[position] = old
            move_consumers(new, old)
            self._became[id(new)] = (new, old)
            return old
        anchor = self._unproduce(old)
        identity = Node("Identity", name=self.names.fresh(f"{old.name}_identity"), inputs=[new], outputs=[old])
        if anchor is not None:
            self.insert_before(graph, anchor, [identity])
        else:
            self._place(graph, self._last(graph), [identity], self._after)
        return new

    def _last(self, graph: Graph) -> Node | None:
        return graph.nodes[-1] if graph.nodes else None

    def _unproduce(self, tensor: Tensor) -> Node | None:
        """Unlink the producer of a tensor; its slot becomes empty. Give the producer."""
        found = None
        for producer in list(tensor._inputs):
            found = producer
            for position, t in enumerate(list(producer._outputs)):
                if t is tensor:
                    producer._outputs[position] = Variable.empty()
        return found

    def _return_instead(self, graph: Graph, old: Tensor, new: Tensor) -> None:
        """Let a body return ``new`` where it returned ``old``."""
        if isinstance(new, Variable) and new.shape is None and new.type == old.type == "tensor_type" and old.shape is not None:
            new.shape = [d if is_static_dim(d) else None for d in old.shape]  # symbols of a body mean nothing outside
        _fill_type(new, old)  # a body's outputs have to be typed: runtimes size what a loop without a trip gives by them
        # (A formal input is not returned as it is either: ONNX Runtime leaves such an output of a Scan unwritten.)
        made_here = self.home(new) is graph and self._formal.get(id(new)) is not graph
        local = made_here or (isinstance(new, Constant) and all(self.holder.get(id(n)) is graph for n in new._outputs))
        if not local or any(t is new for t in graph.outputs):
            stand_in = Variable(self.names.fresh(old.name), old.dtype, old.shape)
            stand_in.value_type = old.value_type if isinstance(old, Variable) else stand_in.value_type
            identity = Node("Identity", name=self.names.fresh(f"{stand_in.name}_identity"), inputs=[new], outputs=[stand_in])
            self._place(graph, self._last(graph), [identity], self._after)
            new = stand_in
        graph._outputs = [new if t is old else t for t in graph._outputs]
        self._unlist(old, graph)
        self._listed.setdefault(id(new), []).append(graph)

    def _unlist(self, tensor: Tensor, graph: Graph) -> None:
        self._listed[id(tensor)] = [g for g in self._listed.get(id(tensor), []) if g is not graph]

    def set_outputs(self, graph: Graph, outputs: Sequence[Tensor]) -> None:
        """Change what a body returns."""
        for t in graph._outputs:
            self._unlist(t, graph)
        graph._outputs = list(outputs)
        for t in graph._outputs:
            listed = self._listed.setdefault(id(t), [])
            if not any(g is graph for g in listed):
                listed.append(graph)

    def set_inputs(self, graph: Graph, inputs: Sequence[Tensor]) -> None:
        """Change the formal inputs of a body."""
        for t in graph._inputs:
            self._formal.pop(id(t), None)
        graph._inputs = list(inputs)
        for t in graph._inputs:
            self._formal[id(t)] = graph

    # -- nodes ------------------------------------------------------------------------------------

    def replace(self, owner: Graph, node: Node, new_nodes: Sequence[Node], new_outputs: Sequence[Tensor | None]) -> None:
        """Put ``new_nodes`` where ``node`` stands, and ``new_outputs`` in place of its outputs; the node goes.

        Args:
            owner: the graph that holds the node.
            node: what to replace.
            new_nodes: in topological order, already linked among themselves.
            new_outputs: one an output; None for one that nothing uses.
        """
        if new_nodes:
            self.insert_before(owner, node, new_nodes)
        for old, new in zip(list(node._outputs), new_outputs):
            if new is not None and old._name:
                self.replace_uses(old, new)
        self.remove(owner, node)

    def bypass(self, owner: Graph, node: Node, tensor: Tensor | None = None) -> None:
        """Let the readers of a node's only used output read ``tensor`` instead, by default the node's first input; the node goes."""
        self.replace(owner, node, [], [tensor if tensor is not None else node._inputs[0]])

    def insert_before(self, owner: Graph, node: Node, new_nodes: Sequence[Node]) -> None:
        """Put nodes right before another."""
        self._place(owner, node, new_nodes, self._before)

    def insert_after(self, owner: Graph, node: Node, new_nodes: Sequence[Node]) -> None:
        """Put nodes right after another."""
        self._place(owner, node, new_nodes, self._after)

    def insert_first(self, owner: Graph, new_nodes: Sequence[Node]) -> None:
        """Put nodes at the very start of a graph."""
        self._place(owner, None, new_nodes, self._first)

    def append(self, owner: Graph, new_nodes: Sequence[Node]) -> None:
        """Put nodes at the very end of a graph."""
        self._place(owner, self._last(owner), new_nodes, self._after)

    def _place(self, owner: Graph, anchor: Node | None, new_nodes: Sequence[Node], where: dict[int, list[Node]]) -> None:
        if not new_nodes:
            return
        self._touched[id(owner)] = owner
        if anchor is None:
            self._first.setdefault(id(owner), []).extend(new_nodes)
        else:
            where.setdefault(id(anchor), []).extend(new_nodes)
        for node in new_nodes:
            self.adopt(owner, node)

    def adopt(self, owner: Graph, node: Node) -> None:
        """Note that a node, with its bodies, belongs to a graph; for nodes that were put there by other means."""
        self._has_new = True
        self.holder[id(node)] = owner
        self._known.append(node)
        self._dead.discard(id(node))
        for body in walk.bodies(node) if node._attrs else ():
            self._adopt_graph(body)

    def remove(self, owner: Graph, node: Node) -> None:
        """Take a node out and unlink it and its bodies; its tensors stay with whoever else uses them."""
        self._touched[id(owner)] = owner
        self._dead.add(id(node))
        if node._attrs and node.has_body:
            self.forget_bodies(node)
        detach(node)

    def forget_bodies(self, node: Node) -> None:
        """Note that a node's bodies return nothing any more."""
        for body in walk.nested(node) if node._attrs else ():
            for t in body._outputs:
                self._unlist(t, body)

    def is_removed(self, node: Node) -> bool:
        """Say whether a node was removed by this editor."""
        return id(node) in self._dead

    def take_body(self, node: Node, body: Graph) -> list[Node]:
        """Take the nodes out of a body, for placing them elsewhere; nothing is copied.

        The node that holds the body, and its other bodies, are to be removed by the caller.
        """
        _ = self.names  # what is taken is in no graph for a while, and its names must count as used
        taken = self.final_nodes(body)
        body.nodes = []
        for t in body._outputs:
            self._unlist(t, body)
        self._touched.pop(id(body), None)
        return taken

    def final_nodes(self, graph: Graph) -> list[Node]:
        """List a graph's nodes as they will be after ``commit()``."""
        dead = self._dead
        if not self._before and not self._after and id(graph) not in self._first:
            return [node for node in graph.nodes if id(node) not in dead]
        out: list[Node] = []
        stack: list[tuple[Node, bool]] = [(n, False) for n in reversed([*self._first.get(id(graph), []), *graph.nodes])]
        while stack:
            node, expanded = stack.pop()
            if expanded or (id(node) not in self._before and id(node) not in self._after):
                if id(node) not in dead:
                    out.append(node)
                continue
            for later in reversed(self._after.get(id(node), [])):
                stack.append((later, False))
            stack.append((node, True))
            for earlier in reversed(self._before.get(id(node), [])):
                stack.append((earlier, False))
        return out

    def commit(self) -> None:
        """Write the node lists of the graphs that changed."""
        for graph in self._touched.values():
            graph.nodes[:] = self.final_nodes(graph)
        self._touched = {}
        self._before, self._after, self._first = {}, {}, {}
        self._dead = set()
        self._has_new = False


def _fill_type(kept: Tensor, source: Tensor) -> None:
    if isinstance(kept, Variable) and source.type != "tensor_type":  # a list, an optional: its type as a whole, or none of it
        if isinstance(source, Variable) and kept.type == "tensor_type" and kept.dtype is None and kept.shape is None:
            kept.value_type = source.value_type
        return
    if isinstance(kept, Variable) and kept.type == "tensor_type":
        if kept.dtype is None:
            kept.dtype = source.dtype
        if kept.shape is None:
            kept.shape = source.shape
        elif source.shape is not None and len(source.shape) == len(kept.shape):
            better = [b if is_static_dim(b) and not is_static_dim(a) else a for a, b in zip(kept.shape, source.shape)]
            if any(a is not b for a, b in zip(better, kept.shape)):
                kept.shape = better


def move_consumers(old: Tensor, new: Tensor) -> None:
    """Let every node that reads ``old`` read ``new`` at the same places; in bulk, one pass."""
    consumers = {id(n): n for n in old._outputs}
    moved = 0
    for node in consumers.values():
        inputs = node._inputs
        for at, t in enumerate(list.__iter__(inputs)):
            if t is old:
                list.__setitem__(inputs, at, new)
                moved += 1
    if moved:
        list.extend(new._outputs, list(old._outputs))
        list.clear(old._outputs)
        edge_log.add((new._name,))


def detach(node: Node) -> None:
    """Unlink a node, and everything in its bodies, from all tensors."""
    if node._attrs and node.has_body:
        for body in walk.nested(node):
            for inner in body.nodes:
                inner._inputs.clear()
                inner._outputs.clear()
    node._inputs.clear()
    node._outputs.clear()


def rename_apart(root: Graph) -> int:
    """Give every tensor of a model, at any depth, a name of its own, and count those renamed; functions are scopes of their own.

    Inputs and outputs of the root keep their names; of two tensors of one name the outer, earlier one keeps it. What code moves between
    scopes relies on this. Nodes in bodies get names of their own likewise, as they may come to stand in one graph.
    """
    taken: dict[str, Tensor] = {}
    for t in (*root.inputs, *root.outputs):
        taken.setdefault(t._name, t)
    clashing: dict[int, Tensor] = {}
    twins: list[Node] = []
    labels: set[str] = set()
    for graph in walk.graphs(root):
        unused = graph._record.unused if graph._record is not None else ()
        for t in (*walk.tensors(graph), *unused):
            holder = taken.setdefault(t._name, t)
            if holder is not t:
                clashing[id(t)] = t
        for node in graph.nodes:
            if node.name and node.name in labels and graph is not root:
                twins.append(node)
            labels.add(node.name)
    if clashing or twins:
        names = Names(root)
        for t in clashing.values():
            t.name = names.fresh(t._name)
        for node in twins:
            node.name = names.fresh(node.name)
    return len(clashing)
