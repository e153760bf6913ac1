"""Peak host memory of this process, as the system counts it."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has no such module
    resource = None  # type: ignore[assignment]


def reset_peak() -> None:
    """Start counting the peak anew, where the system can."""
    if sys.platform == "linux":
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return


def peak_bytes() -> int | None:
    """Give the largest resident size since the last reset, or since the start; None where the system does not say."""
    if sys.platform == "linux":
        try:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            return None
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)
