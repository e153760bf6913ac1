"""One measurement in a fresh process: ``python -m benchmarks.worker TOOL JOB MODEL OUT`` prints seconds and peak memory as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.adapters import ADAPTERS


def memory(field: str) -> float:
    """Give a field of the kernel's account of this process in MB; 0 where there is none."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(status.split(field + ":")[1].split()[0]) / 1000


def forget_peak() -> None:
    """Let the kernel count the peak from here on."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure(tool: str, job: str, model: str, out: str) -> dict[str, Any]:
    """Do one job once."""
    adapter: Any = ADAPTERS[tool]()
    loaded = adapter.load(model) if job not in {"load", "fold"} else None
    forget_peak()
    before, started = memory("VmRSS"), time.perf_counter()
    if job in {"load", "fold"}:
        loaded = getattr(adapter, job)(model)
    elif job == "save":
        adapter.save(loaded, out)
    else:
        loaded = getattr(adapter, job)(loaded)
    seconds = time.perf_counter() - started
    result = {"seconds": seconds, "peak_mb": max(0.0, memory("VmHWM") - before)}
    if job in {"fold", "cleanup"}:
        result["nodes"] = adapter.nodes(loaded)
    return result


def main() -> None:
    """Measure what the command line asks for; what tools print goes nowhere."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    tool, job, model, out = sys.argv[1:]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = measure(tool, job, model, out)
    except Exception as error:  # any failure of a tool is a cell of the table
        result = {"error": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
