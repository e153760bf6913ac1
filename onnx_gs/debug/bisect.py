"""Find the smallest part of a model that still fails a check."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.debug.capture import capture, record_part, save_test_data
from onnx_gs.debug.isolate import isolate
from onnx_gs.debug.selection import Index
from onnx_gs.debug.weights import Weights
from onnx_gs.errors import EvaluationError, GraphError, GraphValueError, MissingExtraError, OnnxGsError
from onnx_gs.evaluate import feeds as feeds_of, onnxruntime
from onnx_gs.io import files
from onnx_gs.ir import order, walk
from onnx_gs.ir.edit import rename_apart
from onnx_gs.ir.node import is_graph
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.inline_functions import InlineFunctions

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

LOGGER = logging.getLogger("onnx_gs")
MODES = ("halves", "linear")


@dataclass
class Case:
    """One part that a check is asked about.

    Attributes:
        graph: the part.
        model: its file.
        folder: the file's folder, which also holds ``test_data_set_0`` with recorded inputs and outputs, where they are known.
        inputs: recorded values of its inputs, by name; empty where the model could not be run.
        outputs: recorded values of its outputs.
    """

    graph: Graph
    model: Path
    folder: Path
    inputs: dict[str, Any]
    outputs: dict[str, Any]


Check = Callable[[Case], bool]


@dataclass(frozen=True)
class Command:
    """A check that runs a command; true means that the part passes.

    Args:
        template: the command; ``{model}`` stands for the part's file, ``{folder}`` for its folder.
        fail_pattern: a regular expression: the part fails when the output matches, whatever the exit status.
        timeout: seconds after which the part counts as failing; None for no limit.
    """

    template: str
    fail_pattern: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """See that there is a command, and that the pattern is one.

        Raises:
            GraphValueError: it is not so.
        """
        try:
            words = shlex.split(self.template)
            re.compile(self.fail_pattern or "")
        except ValueError as error:
            raise GraphValueError(f"the check '{self.template}' cannot be split into words: {error}", fix="close its quotes") from error
        except re.error as error:
            raise GraphValueError(f"'{self.fail_pattern}' is no regular expression: {error}", fix="escape what shall stand for itself") from error
        if not words:
            raise GraphValueError("the check is empty", fix="give a command, such as 'python check.py {model}'")

    def __call__(self, case: Case) -> bool:
        """Run the command on a part."""
        words = [w.replace("{model}", str(case.model)).replace("{folder}", str(case.folder)) for w in shlex.split(self.template)]
        if "{model}" not in self.template and "{folder}" not in self.template:
            words.append(str(case.model))
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=self.timeout, check=False, errors="replace")  # noqa: S603 - the user's own command
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            what = f"the check cannot be run: {(error.strerror or str(error)).lower()}: '{words[0]}'"
            raise OnnxGsError(what, fix="give a command that exists, such as 'python check.py {model}'") from error
        if self.fail_pattern is not None:
            return re.search(self.fail_pattern, done.stdout + done.stderr) is None
        return done.returncode == 0


@dataclass
class Trial:
    """One part that was tried."""

    where: str
    start: int
    stop: int
    passes: bool
    seconds: float = 0.0
    remembered: bool = False


@dataclass
class BisectResult:
    """What was found.

    Attributes:
        part: the smallest part that still fails.
        nodes: labels of its nodes, with the body that they are in.
        model: the part's file, with recorded inputs beside it.
        trials: what was tried, in order.
    """

    part: Graph
    nodes: list[str]
    model: Path
    trials: list[Trial] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """Count the checks that were really run."""
        return sum(not t.remembered for t in self.trials)


def bisect(
    graph: Graph,
    check: Check | str,
    *,
    feeds: Mapping[str, Any] | None = None,
    mode: str = "halves",
    folder: str | os.PathLike[str] | None = None,
    fail_pattern: str | None = None,
    timeout: float | None = None,
) -> BisectResult:
    """Find the smallest run of nodes for which a check still fails, also inside bodies and local functions.

    Each part is cut out with the real values at its border, recorded from one run of the whole model, so that it runs on its own. First the
    shortest failing beginning of the model is sought, then its shortest failing end. A single node with a body, or a call of a function, is
    entered. Verdicts are kept in ``bisect.json`` in the folder: an interrupted search goes on where it was.

    Args:
        graph: the model; it stays as it is.
        check: a callable that takes a ``Case`` and says whether it passes, or a command with ``{model}`` in it that exits with 0 when it passes.
        feeds: values of the model's inputs; those left out are made up, so that the model runs on them.
        mode: ``"halves"`` halves the range each time; ``"linear"`` goes node by node, for checks that do not fail monotonically.
        folder: where parts and the log are kept; by default a new temporary one.
        fail_pattern: for a command: a regular expression that its output matches when it fails.
        timeout: for a command: seconds after which it counts as failing.

    Raises:
        GraphValueError: the whole model passes, or the mode is unknown.
    """
    if mode not in MODES:
        raise GraphValueError(f"mode '{mode}' is not known", fix=f"give one of {', '.join(MODES)}")
    test = Command(check, fail_pattern, timeout) if isinstance(check, str) else check
    target = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="onnx_gs_bisect_"))
    target.mkdir(parents=True, exist_ok=True)
    whole = graph.copy()
    rename_apart(whole)
    order.sort_nodes(whole)
    search = _Search(whole, test, dict(feeds) if feeds is not None else None, target, mode, _key(graph, test, feeds))
    return search.run()


def _key(graph: Graph, check: Check, feeds: Mapping[str, Any] | None) -> str:
    """Hash all that verdicts depend on: the model with its attributes and weights, the check, and the values that are fed."""
    weights = Weights(graph, graph)
    digest = hashlib.sha256()

    def see(value: Any) -> None:
        if isinstance(value, Constant):
            digest.update(weights.content(value))
        elif isinstance(value, (list, tuple)):
            for v in value:
                see(v)
        elif isinstance(value, np.ndarray):
            digest.update(f"{value.dtype}{value.shape}".encode() + (repr(value.tolist()).encode() if value.dtype == object else value.tobytes()))
        elif not is_graph(value):  # whose nodes are walked
            digest.update(repr(value).encode())

    for owner, node in walk.nodes(graph, functions=True):
        digest.update(f"{owner.name}|{node.op}|{node.name}|{[t.name for t in node.inputs]}|{[t.name for t in node.outputs]}\n".encode())
        see([t for t in node.inputs if isinstance(t, Constant)])
        for name, value in node.attrs.items():
            digest.update(name.encode())
            see(value)
    digest.update(repr(check if isinstance(check, Command) else getattr(check, "__qualname__", "callable")).encode())
    for name, value in sorted((feeds or {}).items()):
        digest.update(name.encode())
        see(value)
    return digest.hexdigest()[:16]


class _Search:
    def __init__(self, graph: Graph, check: Check, feeds: dict[str, Any] | None, folder: Path, mode: str, key: str) -> None:
        self.graph, self.check, self.folder, self.mode, self.key = graph, check, folder, mode, key
        self.feeds = feeds or {}
        self.runs: bool | None = None  # whether the whole model does, once that was tried
        self.told: set[str] = set()
        self.trials: list[Trial] = []
        self.log = folder / "bisect.json"
        self.known = self._remembered()
        self.prefix = ""

    def _remembered(self) -> dict[str, bool]:
        try:
            stored = json.loads(self.log.read_text())
        except (OSError, ValueError):
            return {}
        return dict(stored.get("verdicts", {})) if stored.get("key") == self.key else {}

    def _keep(self) -> None:
        content = {"key": self.key, "verdicts": self.known, "trials": [vars(t) for t in self.trials]}
        fresh = self.log.with_suffix(".tmp")
        fresh.write_text(json.dumps(content, indent=1))
        fresh.replace(self.log)

    # -- recorded values --------------------------------------------------------------------------

    def _values(self, part: Graph, trip: int) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.runs is None:
            self._run_whole()
        if self.runs:
            try:
                return record_part(self.graph, part, self.feeds, trip=trip)
            except (GraphError, EvaluationError) as error:
                self._warn(f"the part has no recorded inputs: {error.what}")
        return {}, {}

    def _run_whole(self) -> None:
        """See whether the whole model runs, and make up the inputs that it does so on."""
        self.runs = False
        try:
            self.feeds, _ = feeds_of.first_that_run(self.graph, onnxruntime.session(self.graph).run, given=self.feeds)
            self.runs = True
        except (EvaluationError, MissingExtraError) as error:
            self._warn(f"the whole model does not run, so parts have no recorded inputs: {error.what}")

    def _warn(self, text: str) -> None:
        """Warn, once of one thing."""
        if text not in self.told:
            self.told.add(text)
            LOGGER.warning("%s", text)

    # -- one trial --------------------------------------------------------------------------------

    def fails(self, home: Graph, start: int, stop: int, trip: int = 0) -> bool:
        if stop <= start:
            return False
        where = self.index.places.graph(home)
        key = f"{self.prefix}{where}|{start}|{stop}|{trip}"
        if key in self.known:
            self.trials.append(Trial(where, start, stop, self.known[key], remembered=True))
            return not self.known[key]
        began = time.perf_counter()
        case = self._case(home, start, stop, trip)
        passes = bool(self.check(case))
        self.known[key] = passes
        self.trials.append(Trial(where, start, stop, passes, time.perf_counter() - began))
        self._keep()
        LOGGER.info("%s: nodes %d to %d %s", where, start, stop - 1, "pass" if passes else "fail")
        return not passes

    def _case(self, home: Graph, start: int, stop: int, trip: int) -> Case:
        whole = home is self.graph and start == 0 and stop == len(home.nodes)
        part = self.graph if whole else isolate(self.graph, nodes=home.nodes[start:stop])
        folder = self.folder / "part"
        for old in folder.glob("test_data_set_*/*.pb"):
            old.unlink()
        folder.mkdir(exist_ok=True)
        inputs, outputs = self._values(part, trip)
        model = folder / "model.onnx"
        files.save(part, model)
        if inputs or outputs:
            save_test_data(folder, inputs, outputs, archive=False)
        return Case(part, model, folder, inputs, outputs)

    # -- the search -------------------------------------------------------------------------------

    def run(self) -> BisectResult:
        self.index = Index(self.graph)
        home, start, stop = self.graph, 0, len(self.graph.nodes)
        if not self.fails(home, start, stop):
            raise GraphValueError("the whole model passes the check", fix="see that the check fails on the model as it is")
        trip = 0
        while True:
            start, stop = self._narrow(home, start, stop, trip)
            if stop - start != 1:
                break
            inner = self._enter(home, home.nodes[start], trip)
            if inner is None:
                break
            home, start, stop, trip = inner
        case = self._case(home, start, stop, trip)
        nodes = [self.index.places.node(home, n) for n in home.nodes[start:stop]]
        self._keep()
        return BisectResult(case.graph, nodes, case.model, self.trials)

    def _narrow(self, home: Graph, start: int, stop: int, trip: int) -> tuple[int, int]:
        if self.mode == "linear":
            for end in range(start + 1, stop):
                if self.fails(home, start, end, trip):
                    stop = end
                    break
            for begin in range(stop - 1, start, -1):
                if self.fails(home, begin, stop, trip):
                    return begin, stop
            return start, stop
        low, high = start, stop  # nodes [start, low) pass, [start, high) fail
        while high - low > 1:
            middle = (low + high) // 2
            if self.fails(home, start, middle, trip):
                high = middle
            else:
                low = middle
        stop = high
        if stop - start > 1 and self.fails(home, stop - 1, stop, trip):
            return stop - 1, stop
        low, high = start, stop - 1  # [low, stop) fails, [high, stop) passes
        while high - low > 1:
            middle = (low + high) // 2
            if self.fails(home, middle, stop, trip):
                low = middle
            else:
                high = middle
        return low, stop

    def _enter(self, home: Graph, node: Node, trip: int) -> tuple[Graph, int, int, int] | None:
        """Go into a node's failing body, or into the function that it calls; None when it fails only as a whole."""
        for body in walk.bodies(node):
            order.sort_nodes(body)
            for time_run in self._times(body) if body.nodes else ():
                if self.fails(body, 0, len(body.nodes), time_run):
                    return body, 0, len(body.nodes), time_run
        function = next((f for f in self.graph.functions if f.key == (node.domain or "", node.op, node.overload)), None)
        if function is None:
            return None
        at = next(i for i, n in enumerate(home.nodes) if n is node)
        after = len(home.nodes) - at - 1
        self._inline_one(node, function)
        start, stop = at, len(home.nodes) - after
        if stop <= start or not self.fails(home, start, stop, trip):
            return None
        return home, start, stop, trip

    def _times(self, body: Graph) -> Iterator[int]:
        """Give the times that a body ran at which to look: the first, and, where the check depends on values, the last and one between."""
        yield 0
        inner = next((t for n in body.nodes for t in n.outputs if t.name and getattr(t, "type", "") == "tensor_type"), None)
        if inner is None:
            return
        if self.runs is None:  # all verdicts so far were remembered
            self._run_whole()
        if not self.runs:
            return
        try:
            times = len(capture(self.graph, [inner], self.feeds)[inner.name])
        except (EvaluationError, GraphError, MissingExtraError):
            return
        yield from sorted({times - 1, times // 2} - {0, -1}, reverse=True)

    def _inline_one(self, node: Node, function: Function) -> None:
        """Put a function's body in place of one call, and of no other: the call gets a function of its own first."""
        only = function.copy()
        only.name = f"{function.name}_{len(self.graph.functions)}_only"
        self.graph.functions.append(only)
        node.op = only.name
        InlineFunctions(names=(f"{only.domain}::{only.name}",))(self.graph)
        rename_apart(self.graph)
        self.index = Index(self.graph)
        self.prefix += f"{function.name}/"
