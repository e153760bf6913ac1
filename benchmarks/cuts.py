"""Cut parts out of real models at random places, run them on recorded values, and compare bit for bit; and time cutting.

``python -m benchmarks.cuts MODEL... [--cuts 4] [--seed 0]`` prints a line a model. ``--time`` instead measures ``onnx-gs extract`` and
``polygraphy surgeon extract`` side by side, each in a fresh process.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_gs as gs
from onnx_gs.debug.capture import record_part
from onnx_gs.debug.isolate import isolate
from onnx_gs.errors import EvaluationError, GraphError, GraphValueError
from onnx_gs.evaluate import feeds as feeds_of, onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.ir import walk
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}


@dataclass
class Outcome:
    """What became of a model's cuts.

    Attributes:
        model: the file.
        same: how many parts gave the whole model's values, bit for bit: at the top, and in bodies.
        unrun: why a cut was not compared: the body did not run on these inputs, or holds a random operator.
        wrong: what is wrong with the others.
        whole: why the model as a whole does not run; then nothing was cut.
    """

    model: str
    same: list[int] = field(default_factory=lambda: [0, 0])
    unrun: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    whole: str = ""


def check(path: str | Path, cuts: int = 4, seed: int = 0) -> Outcome:
    """Cut a model at random places, as many times at the top and as many times in its bodies.

    Args:
        path: the model's file.
        cuts: how many of each.
        seed: of the places.
    """
    outcome = Outcome(str(path))
    graph = gs.load(path)
    try:
        feeds = feeds_of.make(graph)
        onnxruntime.run(graph, feeds)
    except (EvaluationError, GraphError) as error:
        outcome.whole = error.what
        return outcome
    rng = random.Random(f"{Path(path).name}{seed}")  # noqa: S311 - places, not secrets
    bodies = [g for g in walk.graphs(graph) if g is not graph and g.nodes]
    for at, homes in enumerate(([graph], bodies)):
        for _ in range(cuts if homes else 0):
            _cut(graph, rng.choice(homes), at, rng, feeds, outcome)
    return outcome


def places(home: Graph, rng: random.Random) -> tuple[list[Any], list[Any]]:
    """Choose tensors of a graph where a part ends, and some before them where it begins."""
    computed = [t for n in home.nodes for t in n.outputs if t.name and getattr(t, "type", "") == "tensor_type"]
    if not computed:
        return [], []
    ends = rng.sample(computed, min(len(computed), rng.randint(1, 3)))
    holder = {id(n) for n in home.nodes}
    before, pending, seen = [], [t for e in ends for p in e.inputs for t in p.inputs], set()
    while pending and len(seen) < 300:
        t = pending.pop(rng.randrange(len(pending)))
        if id(t) in seen or not t.name or isinstance(t, Constant):
            continue
        seen.add(id(t))
        if getattr(t, "type", "") == "tensor_type":
            before.append(t)
        pending.extend(u for p in t.inputs if id(p) in holder for u in p.inputs)
    return rng.sample(before, min(len(before), rng.randint(0, 3))), ends


def _cut(graph: Graph, home: Graph, at: int, rng: random.Random, feeds: dict[str, Any], outcome: Outcome) -> None:
    starts, ends = places(home, rng)
    if not ends:
        return
    where = f"{home.name}: {[t.name for t in starts]} to {[t.name for t in ends]}"
    try:
        part = isolate(graph, starts, ends)
        if any(n.op in RANDOM for _, n in walk.nodes(part, functions=True)):
            outcome.unrun.append(f"{where}: random operator")
            return
        try:
            given, expected = record_part(graph, part, feeds, trip=rng.choice([0, 0, 1]))
        except GraphValueError as error:
            if "times, so there is no trip" not in error.what:
                raise
            outcome.unrun.append(f"{where}: {error.what}")
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "part.onnx"
            gs.save(part, file)
            found = onnxruntime.run(gs.load(file), given)
    except (EvaluationError, GraphError) as error:
        outcome.wrong.append(f"{where}: {error}")
        return
    apart = {name: difference for name in expected if (difference := compare(found[name], expected[name])) is not None}
    if apart:
        outcome.wrong.append(f"{where}: {apart}")
    else:
        outcome.same[at] += 1


def seconds(command: list[str]) -> tuple[float, float]:
    """Run a command in a fresh process and give its wall-clock and processor time; infinite where it fails."""
    began, spent = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-800:])
        return float("inf"), float("inf")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime


def timed(path: str, runs: int = 3) -> tuple[tuple[float, float], tuple[float, float]]:
    """Time cutting some twenty nodes out of a model: ours, and polygraphy's, each the best of some runs."""
    graph = gs.load(path)
    computed = [t for n in graph.nodes for t in n.outputs if t.name]
    start, end = computed[len(computed) // 2], computed[min(len(computed) - 1, len(computed) // 2 + 20)]
    scripts = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "part.onnx")
        ours = [str(scripts / "onnx-gs"), "extract", path, "--inputs", start.name, "--outputs", end.name, "-o", out, "--quiet"]
        border = ["--inputs", f"{start.name}:auto:auto", "--outputs", f"{end.name}:auto"]
        peer = [str(scripts / "polygraphy"), "surgeon", "extract", path, *border, "-o", out]
        return min(seconds(ours) for _ in range(runs)), min(seconds(peer) for _ in range(runs))


def main() -> int:
    """Measure, and print a line a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--cuts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    if options.time:
        for path in options.models:
            ours, peer = timed(path)
            times = [f"{what} {a:.2f} s against {b:.2f} s ({b / a:.1f} times)" for what, a, b in zip(("wall clock", "processor"), ours, peer)]
            print(f"{Path(path).name}: onnx-gs against polygraphy: {', '.join(times)}")
        return 0
    bad = 0
    for path in options.models:
        found = check(path, options.cuts, options.seed)
        bad += bool(found.wrong)
        what = f"does not run: {found.whole}" if found.whole else f"{found.same[0]} at the top, {found.same[1]} in bodies, {len(found.unrun)} not run"
        print(f"{Path(path).name}: {what}" + "".join(f"\n  WRONG {w}" for w in found.wrong), flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
