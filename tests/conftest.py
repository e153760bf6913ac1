"""What every test starts with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from onnx_gs.logger import G_LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The package's loggers; commands quiet the second for the length of their process.
LOGGERS = tuple(map(logging.getLogger, ("onnx_gs", "onnx_gs.tensorrt")))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Take back what a test does to the package's loggers: scripts set a level and have it write to standard output."""
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in LOGGERS]
    severity, installed = G_LOGGER._severity, G_LOGGER._handler
    yield
    for logger, (level, propagate, handlers) in zip(LOGGERS, before):
        logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers
    G_LOGGER._severity, G_LOGGER._handler = severity, installed
