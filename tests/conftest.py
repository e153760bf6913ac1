"""What every test starts with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from onnx_gs.logger import G_LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Take back what a test does to the package's logger: scripts set its level and have it write to standard output."""
    logger = logging.getLogger("onnx_gs")
    level, propagate, handlers, severity = logger.level, logger.propagate, list(logger.handlers), G_LOGGER._severity
    installed = G_LOGGER._handler
    yield
    logger.setLevel(level)
    logger.propagate = propagate
    logger.handlers[:] = handlers
    G_LOGGER._severity, G_LOGGER._handler = severity, installed
