"""Building many objects at once."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector: while a graph is built it would rescan, again and again, what is being built."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def count_as_old() -> None:
    """Spare the collector its next round through what was just built, while it is paused.

    For a process that builds a graph or two: where many are built and dropped, what is dropped would stay for long.
    """
    if not gc.get_freeze_count():
        gc.freeze()  # to the permanent generation, and from there to the oldest: nothing is looked at
        gc.unfreeze()
