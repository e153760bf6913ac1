"""Building many objects at once."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector: while a graph is built it would rescan, again and again, what is being built.

    What was built counts as old from then on: the next round would find all of it alive, at a tenth of the time that building it took.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()  # to the permanent generation, and from there to the oldest: nothing is looked at
                gc.unfreeze()
            gc.enable()
