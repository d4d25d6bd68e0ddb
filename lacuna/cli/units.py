"""Sizes, durations and counts as users type and read them: 256KiB, 64MiB; 30s, 7d; 1 task, 2 tasks."""

import re
from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.client.times import seconds_of

_BYTES: Final = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?(|KiB|MiB|GiB)", re.IGNORECASE)
_DURATIONS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def parse_size(text: str, what: str) -> int:
    """Parse a size into bytes. Raises UserError, which calls the option `what`, unless it is more than 0."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _BYTES[match[2].lower()] if match else 0
    if size <= 0:
        raise UserError(
            f"{what} {text} is not a size: use a value such as 65536, 256KiB, 64MiB or 1GiB"
        )
    return size


def show_size(size: int) -> str:
    """Format a number of bytes in the largest unit in which it is at least 1: `512 bytes`, `1.5 MiB`."""
    value, at = float(size), 0
    while value >= 1024 and at < len(_UNITS) - 1:
        value, at = value / 1024, at + 1
    return f"{size} bytes" if not at else f"{value:.1f} {_UNITS[at]}"


def show_count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def parse_duration(text: str, what: str) -> float:
    """Parse a duration into seconds. `what` is the option's name, for error messages.

    Raises UserError unless the duration is more than 0 and at most a century.
    """
    seconds = seconds_of(text)
    if seconds is None:
        raise UserError(f"{what} {text}: use a duration such as 30s, 10m, 24h or 7d")
    return seconds


def show_duration(seconds: float) -> str:
    """Format a duration in the largest unit that makes it a whole number: `7d`, `90m`, `1.5s`."""
    for unit, size in _DURATIONS:
        if seconds >= size and not seconds % size:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
