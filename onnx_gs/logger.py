"""``G_LOGGER`` for scripts, over ``logging``: the names and levels that scripts for onnx-graphsurgeon use.

The library itself logs to ``logging.getLogger("onnx_gs")`` and prints nothing. Setting ``G_LOGGER.severity`` installs, once, a handler that
writes to standard output, which is what such scripts expect.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import OnnxGsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Scripts also import ``onnx_gs.logger.logger``: a module with a path may have submodules, and ``script_modules`` knows that one.
__path__: list[str] = []

LOGGER = logging.getLogger("onnx_gs")


class LogMode(enum.IntEnum):
    """How often a message is shown."""

    EACH = 0
    ONCE = 1


class Logger:
    """A thin logger with the levels of the scripts.

    Example:
        >>> G_LOGGER.severity >= Logger.ULTRA_VERBOSE
        True
    """

    ULTRA_VERBOSE = -10
    VERBOSE = 0
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50

    #: ``logging`` never shows levels of 0 and below, so the two lowest are moved up.
    _LEVELS = ((-10, 5), (0, 7))

    def __init__(self) -> None:
        """Start at INFO without installing anything."""
        self._severity = self.INFO
        self._callbacks: list[Callable[[int], None]] = []
        self._shown: set[int] = set()
        self._depth = 0
        self._handler: logging.Handler | None = None
        self.colors = True
        self.letter = True
        self.timestamp = False
        self.line_info = False

    @classmethod
    def _level(cls, severity: int) -> int:
        for own, theirs in cls._LEVELS:
            if severity <= own:
                return theirs
        return severity

    @property
    def severity(self) -> int:
        """The least severe level that is shown."""
        return self._severity

    @severity.setter
    def severity(self, new: int) -> None:
        self._severity = new
        if self._handler is None:
            self._handler = _StandardOutput()
            self._handler.setFormatter(_Format(self))
            LOGGER.addHandler(self._handler)
            LOGGER.propagate = False
        LOGGER.setLevel(self._level(new))
        for callback in self._callbacks:
            callback(new)

    def register_callback(self, callback: Callable[[int], None]) -> None:
        """Call a function with the level, now and whenever it is set."""
        callback(self._severity)
        self._callbacks.append(callback)

    @contextlib.contextmanager
    def suppress(self, severity: int = CRITICAL) -> Iterator[None]:
        """Show only messages of at least ``severity`` in a ``with`` block."""
        before, level = self._severity, LOGGER.level
        self._severity = severity
        LOGGER.setLevel(self._level(severity))
        try:
            yield
        finally:
            self._severity = before
            LOGGER.setLevel(level)

    @contextlib.contextmanager
    def indent(self, level: int = 1) -> Iterator[None]:
        """Indent messages in a ``with`` block."""
        self._depth += level
        try:
            yield
        finally:
            self._depth -= level

    def log(self, message: str | Callable[[], str], severity: int, mode: LogMode = LogMode.EACH, stack_depth: int = 2) -> None:
        """Log a message, or what a function of no arguments gives, if the level is shown.

        Args:
            message: text or callable.
            severity: one of this class's levels.
            mode: ``LogMode.ONCE`` shows equal messages once.
            stack_depth: how many calls up the message's place is.
        """
        level = self._level(severity)
        if severity < self._severity or not LOGGER.isEnabledFor(level):
            return
        text = message() if callable(message) else str(message)
        if mode == LogMode.ONCE:
            if hash(text) in self._shown:
                return
            self._shown.add(hash(text))
        LOGGER.log(level, "%s", "\t" * self._depth + text, stacklevel=stack_depth + 1)

    def ultra_verbose(self, message: str | Callable[[], str], mode: LogMode = LogMode.EACH) -> None:
        """Log at the lowest level."""
        self.log(message, self.ULTRA_VERBOSE, mode)

    def verbose(self, message: str | Callable[[], str], mode: LogMode = LogMode.EACH) -> None:
        """Log at VERBOSE."""
        self.log(message, self.VERBOSE, mode)

    def debug(self, message: str | Callable[[], str], mode: LogMode = LogMode.EACH) -> None:
        """Log at DEBUG."""
        self.log(message, self.DEBUG, mode)

    def info(self, message: str | Callable[[], str], mode: LogMode = LogMode.EACH) -> None:
        """Log at INFO."""
        self.log(message, self.INFO, mode)

    def warning(self, message: str | Callable[[], str], mode: LogMode = LogMode.EACH) -> None:
        """Log at WARNING."""
        self.log(message, self.WARNING, mode)

    def error(self, message: str | Callable[[], str], mode: LogMode = LogMode.EACH) -> None:
        """Log at ERROR."""
        self.log(message, self.ERROR, mode)

    def critical(self, message: str | Callable[[], str]) -> None:
        """Log at CRITICAL and raise.

        Raises:
            OnnxGsError: always, with the message.
        """
        self.log(message, self.CRITICAL)
        raise OnnxGsError(message() if callable(message) else str(message))


if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[Any]
else:
    _StreamHandler = logging.StreamHandler  # takes no type before Python 3.11


class _StandardOutput(_StreamHandler):
    """Write to whatever ``sys.stdout`` is when the message comes."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)


class _Format(logging.Formatter):
    """``[W] message``, with time and place where the logger asks for them."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def format(self, record: logging.LogRecord) -> str:
        parts = []
        if self._logger.letter:
            letter = {5: "U", 7: "V"}.get(record.levelno, record.levelname[:1])
            parts.append(f"[{letter}]")
        if self._logger.timestamp:
            parts.append(f"[{time.strftime('%X')}]")
        if self._logger.line_info:
            parts.append(f"[{record.filename}:{record.lineno}]")
        return " ".join([*parts, record.getMessage()])


G_LOGGER = Logger()
