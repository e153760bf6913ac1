"""Write ``docs/fold-speed.md``: seconds from the file to the folded model, on real models, against other tools.

    python -m benchmarks.fold_speed MODELS [--tools "onnx_gs simplify,onnxsim"] [--repeat 3] [-o docs/fold-speed.md]

``MODELS`` is a folder; every ``.onnx`` file below it with more than 100 nodes is taken, largest models apart (``--most``). Each tool is imported
once, with ONNX Runtime where it uses that, and every measurement is a fork of that process, so nothing is left from an earlier one. Tools take
turns, ours first, and medians are shown. Keep the machine idle meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnx

from benchmarks.adapters import ADAPTERS

OURS = "onnx_gs simplify"
TOOLS = (OURS, "onnx-graphsurgeon", "polygraphy", "onnxslim", "onnxscript", "onnxsim")
LEAST_NODES = 100
#: A tool that takes so many times as long as ours is measured once.
_FAR = 10
_HEAD = """# Time to fold

Seconds from the file to the simplified model in memory by `onnx_gs` (`gs.load(path).simplify()`), and how many times longer other tools took in the
same run, each the way its documentation shows; onnx-graphsurgeon with ONNX's shape inference before. Real models with more than {least} nodes.
Every measurement is a fresh process in which the tool, and ONNX Runtime where it needs that, is imported already. Medians of {repeat}; a tool that
took ten times as long as ours was measured once. Made by
`python -m benchmarks.fold_speed MODELS` with {versions}.

| model | nodes | onnx_gs | {tools} |
|---|--:|--:|{rules}
"""


class Tool:
    """A process that has a tool imported, and forks for every measurement."""

    def __init__(self, name: str) -> None:
        """Start it."""
        command = [sys.executable, "-m", "benchmarks.fold_speed", "--serve", name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fold(self, path: Path) -> float:
        """Fold a model; give the seconds, NaN where the tool fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path.resolve()}\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline() or "NaN"))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve(name: str) -> None:
    """Answer each path on standard input with the seconds that a fork took to fold it."""
    answers = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    adapter: Any = ADAPTERS[name]()
    if name != OURS:
        import onnxruntime  # noqa: F401 - most tools import it with the first model
    with tempfile.TemporaryDirectory(prefix="onnx_gs_bench_") as scratch:
        os.chdir(scratch)  # some tools leave files where they are called
        for line in sys.stdin:
            answers.write(_in_fork(adapter, line.strip()) + "\n")
            answers.flush()


def _in_fork(adapter: Any, path: str) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            started = time.perf_counter()
            adapter.fold(path)
            os.write(writing, json.dumps(time.perf_counter() - started).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found or "NaN"


def models(folder: Path, most_bytes: int) -> list[tuple[Path, int]]:
    """List the models with their numbers of nodes."""
    found = []
    for path in sorted(folder.rglob("*.onnx")):
        if path.stat().st_size > most_bytes:
            continue
        nodes = len(onnx.load(path, load_external_data=False).graph.node)
        if nodes > LEAST_NODES:
            found.append((path, nodes))
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(TOOLS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--most", type=int, default=256, help="largest file to take, in MB (256)")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent.parent / "docs" / "fold-speed.md")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    names = [name for name in options.tools if ADAPTERS[name].version() is not None]
    tools = {name: Tool(name) for name in names}
    rows, ratios = [], {name: [] for name in names if name != OURS}
    for path, nodes in models(options.folder, options.most << 20):
        runs: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(options.repeat):
            for name, tool in tools.items():
                if not any(math.isnan(t) or t > _FAR * runs[OURS][0] for t in runs[name]):
                    runs[name].append(tool.fold(path))
        mine = statistics.median(runs[OURS])
        cells = []
        for name, found in ratios.items():
            if any(map(math.isnan, runs[name])):
                cells.append("fails")
                continue
            found.append(statistics.median(runs[name]) / mine)
            cells.append(f"{found[-1]:.1f}")
        rows.append(f"| {path.stem} | {nodes:,} | {mine:.3f} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    for word, figure in (("median", statistics.median), ("least", min)):
        rows.append(f"| **{word}** | | | {' | '.join(f'**{figure(found):.1f}**' for found in ratios.values())} |")
    for tool in tools.values():
        tool.close()
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{ADAPTERS[n].package} {ADAPTERS[n].version()}" for n in names)])
    head = _HEAD.format(least=LEAST_NODES, repeat=options.repeat, versions=versions, tools=" | ".join(ratios), rules="--:|" * len(ratios))
    options.output.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
