"""Measure every tool that is installed, side by side, and print the ratios.

    python -m benchmarks [--full] [--jobs load,fold] [--tools onnx_gs,onnx-ir] [--repeat 3]

Each measurement is a fresh process; tools take turns within a repetition, and medians are shown. A ratio above 1 says how many times longer
the other tool took than ``onnx_gs`` in the same run. Keep the machine idle meanwhile, and compare ratios, not seconds of different runs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.adapters import ADAPTERS

JOBS = {  # job -> the models that say something about it
    "load": ("chain", "heavy"),
    "save": ("chain", "heavy"),
    "copy": ("chain",),
    "toposort": ("chain",),
    "cleanup": ("chain", "dead"),
    "layer": ("fan",),
    "detach": ("fan",),
    "fold": ("attention",),
}


def ask(tool: str, job: str, model: Path, out: Path, cap: float) -> dict[str, Any]:
    """Run one measurement."""
    command = [sys.executable, "-m", "benchmarks.worker", tool, job, str(model), str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=cap, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"over {cap:.0f} s"}
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": f"status {done.returncode}"}


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the median of each figure, or the first error."""
    failed = next((run for run in runs if "error" in run), None)
    return failed or {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def cell(mine: dict[str, Any] | None, other: dict[str, Any], *, own: bool) -> str:
    """Spell one figure: seconds and memory for ours, ratios for others."""
    if "error" in other:
        return other["error"].split(":")[0]
    nodes = f", {other['nodes']:.0f} nodes" if "nodes" in other else ""
    if own or mine is None or "error" in mine:
        return f"{other['seconds'] * 1000:.1f} ms, {other['peak_mb']:.0f} MB{nodes}"
    return f"{other['seconds'] / max(mine['seconds'], 1e-9):.1f} ×{nodes}"


def main() -> int:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="100,000 nodes and 1 GB of weights instead of 20,000 and 256 MB")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=list(JOBS), help="which jobs, with commas")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(ADAPTERS), help="which tools, with commas")
    parser.add_argument("--repeat", type=int, default=3, help="measurements a cell (3)")
    parser.add_argument("--cap", type=float, default=120, help="seconds for one measurement (120)")
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "onnx_gs_bench", help="where the generated models are kept")
    parser.add_argument("--output", type=Path, help="write the figures as JSON too")
    options = parser.parse_args()
    tools = [tool for tool in options.tools if ADAPTERS[tool].version() is not None]
    files = models.write(options.models, full=options.full)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    versions = {ADAPTERS[tool].package: ADAPTERS[tool].version() for tool in tools}
    print(f"Python {platform.python_version()}, {', '.join(f'{package} {version}' for package, version in versions.items())}\n")
    columns: list[str] = []
    with tempfile.TemporaryDirectory(prefix="onnx_gs_bench_") as scratch:
        for job in options.jobs:
            able = [tool for tool in tools if job in ADAPTERS[tool].jobs]
            if able != columns:
                print(("\n" if columns else "") + "| job | model | " + " | ".join(able) + " |\n|---|---|" + "---|" * len(able))
                columns = able
            for name, path in files.items():
                if not name.startswith(JOBS[job]):
                    continue
                runs: dict[str, list[dict[str, Any]]] = {tool: [] for tool in able}
                for _ in range(options.repeat):
                    for tool in able:  # in turns, so that a slow moment of the machine meets all
                        if not (runs[tool] and "error" in runs[tool][-1]):
                            runs[tool].append(ask(tool, job, path, Path(scratch) / "out.onnx", options.cap))
                found = {tool: middle(runs[tool]) for tool in able}
                results[f"{job} {name}"] = found
                mine = found.get("onnx_gs")
                cells = [cell(mine, found[tool], own=tool.startswith("onnx_gs")) for tool in able]
                print(f"| {job} | {name} | " + " | ".join(cells) + " |", flush=True)
    if options.output:
        options.output.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 1 if any("error" in found.get("onnx_gs", {}) for found in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
