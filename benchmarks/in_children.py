"""What comes of running something on many models, in child processes that may crash, kept in a file so that it is done once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def results(script: str, paths: list[Path], cache: Path, *, batch: int) -> dict[str, dict[str, Any]]:
    """Give, by the model's file name, what ``script --child PATH...`` tells of each model that the cache does not know yet.

    Args:
        script: the file of the benchmark; with ``--child`` it calls ``tell``.
        paths: the models.
        cache: a JSON file with what is known; written after each child.
        batch: how many models one child gets.
    """
    known: dict[str, dict[str, Any]] = json.loads(cache.read_text()) if cache.exists() else {}
    waiting = [p for p in paths if p.name not in known]
    while waiting:
        given, waiting = waiting[:batch], waiting[batch:]
        done = subprocess.run([sys.executable, script, "--child", *map(str, given)], capture_output=True, text=True, check=False, errors="replace")
        for line in done.stdout.splitlines():
            if line.startswith("@@"):
                result = json.loads(line[2:])
                known[result.pop("model")] = result
        left = [p for p in given if p.name not in known]
        if left:  # the first of them took the child down
            known[left[0].name] = {"status": "crash", "what": f"status {done.returncode}: {done.stderr[-300:]}"}
            waiting = left[1:] + waiting
        cache.write_text(json.dumps(known))
        print(f"\r{len(known)} of {len(paths)}", end="", file=sys.stderr, flush=True)
    return known


def tell(paths: list[str], work: Callable[[str], dict[str, Any]]) -> None:
    """Do the work on each model, in the child, and print a line of JSON for each."""
    for path in paths:
        print("\n@@" + json.dumps({"model": Path(path).name, **work(path)}), flush=True)
