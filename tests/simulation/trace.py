"""Prints the history of one simulation as a readable table: time, process, event."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.golden.messages import API_NAMES
from tests.simulation.loop import SimulatedLoop

#: The most characters of one value, and of one line.
_VALUE: Final = 60
_LINE: Final = 240


class Trace:
    """Collects lines. `tell` attributes a line to the running process, or to the world."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.lines: list[str] = []

    def tell(self, what: str) -> None:
        """Add a line."""
        who = self._loop.current.name
        self.lines.append(f"{self._loop.time():12.6f}  {who:<14}  {what}"[:_LINE])

    def request(self, key: int, version: int, to: str, message: Any) -> None:
        """Add a request that a client sends."""
        self.tell(f"-> {to} {API_NAMES[key]} v{version} {_fields(message)}")

    def answer(self, key: int, of: str, message: Any) -> None:
        """Add an answer that a client gets."""
        self.tell(f"<- {of} {API_NAMES[key]} {_fields(message)}")

    @contextmanager
    def of_logs(self) -> Iterator[None]:
        """Add what agents and control planes log during the block."""
        logger = logging.getLogger("lacuna")
        handler = _Handler(self)
        before = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        propagates, logger.propagate = logger.propagate, False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
            logger.propagate = propagates


class _Handler(logging.Handler):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        # The threads of other tests' clusters log as well.
        if record.thread == self._thread:
            self._trace.tell(f"{record.levelname.lower()}: {record.getMessage()}")


def _fields(value: Any) -> str:
    """Return the fields of a message that differ from their defaults."""
    if isinstance(value, tuple) and hasattr(value, "_field_defaults"):
        fields: tuple[str, ...] = value._fields  # type: ignore[attr-defined]
        defaults = value._field_defaults
        shown = (
            f"{name.strip('_')}={_fields(each)}"
            for name, each in zip(fields, value, strict=True)
            if each != defaults.get(name)
        )
        return f"({', '.join(shown)})"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_fields, value))}]"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes" if len(value) > 16 else bytes(value).hex()
    return repr(value)[:_VALUE]
