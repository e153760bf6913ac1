"""A one-line progress bar for a build."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH = 30
_INTERVAL = 0.1


class ProgressBar:
    """Draws the outermost phase as a bar and names the innermost; a callable to hand to ``build(progress=…)``.

    Args:
        stream: where to draw; nothing is drawn where it is no terminal, unless ``always``.
        always: draw also into a file.
    """

    def __init__(self, stream: TextIO | None = None, *, always: bool = False) -> None:
        """Take the stream; standard error by default."""
        self.stream = stream if stream is not None else sys.stderr
        self.enabled = always or self.stream.isatty()
        self.done = 0.0
        self._drawn = 0.0

    def __call__(self, phase: str, parent: str | None, done: int, steps: int) -> None:
        """Take one event of the build."""
        if parent is None and steps:
            self.done = max(self.done, done / steps)
        now = time.monotonic()
        if not self.enabled or (now - self._drawn < _INTERVAL and done < steps):
            return
        self._drawn = now
        filled = int(self.done * _WIDTH)
        self.stream.write(f"\r[{'#' * filled}{'.' * (_WIDTH - filled)}] {self.done:4.0%} {phase[:40]:<40}")
        self.stream.flush()

    def close(self) -> None:
        """End the line."""
        if self.enabled and self._drawn:
            self.stream.write("\n")
            self.stream.flush()
