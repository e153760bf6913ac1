"""Building many objects at once."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


#: How often a process spares the collector what it built: scripts that handle a model or two are done before it has anything to find.
SPARED = 4
_spared = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector: while a graph is built it would rescan, again and again, what is being built.

    The first few times in a process, what was built also counts as old; after that the collector must see what is dropped.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _spare()
            gc.enable()


def _spare() -> None:
    global _spared  # noqa: PLW0603 - it is the process that is young or not
    if _spared < SPARED and gc.get_count()[0] > gc.get_threshold()[0]:
        _spared += 1
        count_as_old()


def count_as_old() -> None:
    """Spare the collector its next round through what was just built, while it is paused.

    For a process that builds a graph or two: where many are built and dropped, what is dropped would stay for long, until all is looked through.
    """
    if not gc.get_freeze_count():
        gc.freeze()  # to the permanent generation, and from there to the oldest: nothing is looked at
        gc.unfreeze()
