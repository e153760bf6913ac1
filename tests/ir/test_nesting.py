"""Bodies nested deeper than files and Python's stack allow: it works, or one error says what is wrong, and nothing is lost."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.ir import walk
from onnx_gs.ir.isomorphism import difference
from onnx_gs.ir.verify import problems


def nested(depth: int, innermost: str = "Neg") -> gs.Graph:
    """Make a graph with ``If`` inside ``If``, built from the inside."""
    c, x = gs.Variable("c", np.bool_, ()), gs.Variable("x", np.float32, (2,))

    def leaf(name: str, op: str) -> gs.Graph:
        y = gs.Variable(name, np.float32, (2,))
        return gs.Graph([gs.Node(op, inputs=[x], outputs=[y])], [], [y], name=name, opset=18)

    graph = leaf("y0", innermost)
    for level in range(1, depth + 1):
        y = gs.Variable(f"y{level}", np.float32, (2,))
        branches = {"then_branch": graph, "else_branch": leaf(f"z{level}", "Abs")}
        graph = gs.Graph([gs.Node("If", f"if{level}", attrs=branches, inputs=[c], outputs=[y])], [], [y], name=f"level{level}", opset=18)
    graph.inputs = [c, x]
    return graph


@pytest.mark.parametrize("depth", [3, 200, 600])
def test_comparing_and_showing(depth):
    graph = nested(depth)
    assert graph == nested(depth)
    assert graph.nodes[0] == nested(depth).nodes[0]
    assert graph != nested(depth, "Exp")
    assert graph != nested(depth + 1)
    assert str(graph).count("(If)") == depth
    assert repr(graph.nodes[0]).count("(Neg)") == 1


def test_text_of_bodies_is_as_before():
    node = nested(1).nodes[0]
    assert str(node) == (
        "if1 (If)\n\tInputs: [\n\t\tVariable (c): (shape=(), dtype=bool)\n\t]\n\tOutputs: [\n\t\tVariable (y1): (shape=(2,), dtype=float32)\n\t]\n"
        f"Attributes: {{'then_branch': {node.attrs['then_branch']}, 'else_branch': {node.attrs['else_branch']}}}"
    )


def test_two_hundred_deep():
    graph = nested(200)
    for made in (graph.copy(), copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert made == graph
        assert difference(made, graph) is None
    assert copy.deepcopy(graph.nodes[0]) == graph.nodes[0]
    assert pickle.loads(pickle.dumps(graph.nodes[0])) == graph.nodes[0]
    assert problems(graph) == []
    assert walk.depth(graph) == 200


@pytest.mark.parametrize(
    "act",
    [
        lambda g: g.copy(), lambda g: copy.deepcopy(g), lambda g: g.nodes[0].copy(), lambda g: problems(g), lambda g: difference(g, g.copy()),
        lambda g: g.cleanup(), lambda g: g.apply("simplify"), lambda g: gs.isolate(g, outputs=g.outputs), lambda g: gs.diff(g, g),
    ],
    ids=["copy", "deepcopy", "node", "verify", "difference", "cleanup", "apply", "isolate", "diff"],
)  # fmt: skip
def test_what_is_too_deep_for_the_stack_is_one_error(act, monkeypatch):
    graph = nested(150)
    before = str(graph)
    with pytest.raises(gs.GraphError, match=r"bodies are nested 1\d\d deep"), _shallow_stack():
        act(graph)
    assert str(graph) == before


class _shallow_stack:  # noqa: N801 - reads as a function
    """Lower Python's limit to little more than what is in use."""

    def __enter__(self):
        import inspect
        import sys

        self.before = sys.getrecursionlimit()
        sys.setrecursionlimit(len(inspect.stack(0)) + 90)

    def __exit__(self, *_):
        import sys

        sys.setrecursionlimit(self.before)


def test_files_nest_as_deep_as_they_can_be_read():
    graph = nested(31)
    stream = io.BytesIO()
    gs.save(graph, stream)
    stream.seek(0)
    assert gs.load(stream) == gs.import_onnx(gs.export_onnx(graph))


@pytest.mark.parametrize("depth", [32, 60, 200])
def test_what_could_not_be_read_is_not_written(depth, tmp_path):
    graph = nested(depth)
    with pytest.raises(gs.GraphError, match=f"bodies are nested {depth} deep, which nothing could read"):
        gs.export_onnx(graph)
    with pytest.raises(gs.GraphError, match=r"messages may nest 100 deep(.|\n)*graph 'level"):
        gs.save(graph, tmp_path / "deep.onnx")
    assert not list(tmp_path.iterdir())
    assert graph == nested(depth)


def test_a_function_that_nests_too_deep_is_named():
    inner = nested(40)
    function = gs.Function("Deep", "local", nodes=inner.nodes, inputs=inner.inputs, outputs=inner.outputs, opset=18)
    c, x, y = gs.Variable("c", np.bool_, ()), gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32, (2,))
    graph = gs.Graph([gs.Node("Deep", domain="local", inputs=[c, x], outputs=[y])], [c, x], [y], opset=18, functions=[function])
    with pytest.raises(gs.GraphError, match="function 'local::Deep'"):
        gs.export_onnx(graph)


def test_a_body_that_holds_itself():
    graph = nested(2)
    graph.nodes[0].attrs["else_branch"] = graph
    with pytest.raises(gs.GraphError, match="a body holds itself"):
        walk.depth(graph)
    assert "..." in str(graph)
    with pytest.raises(gs.GraphError, match="a body holds itself"):
        gs.export_onnx(graph)
