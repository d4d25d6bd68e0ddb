"""Sizes as people type them: 65536, 256KiB, 64MiB, 1GiB."""

import re
from typing import Final

from lacuna.errors import UserError

_BYTES: Final = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?(|KiB|MiB|GiB)", re.IGNORECASE)
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def parse_size(text: str, what: str) -> int:
    """Bytes, more than 0; `what` names the option. Raises UserError."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _BYTES[match[2].lower()] if match else 0
    if size <= 0:
        raise UserError(f"{what} {text}: write a size such as 65536, 256KiB, 64MiB or 1GiB")
    return size


def show_size(size: int) -> str:
    """In the largest unit that it is one of at least."""
    value, at = float(size), 0
    while value >= 1024 and at < len(_UNITS) - 1:
        value, at = value / 1024, at + 1
    return f"{size} bytes" if not at else f"{value:.1f} {_UNITS[at]}"
