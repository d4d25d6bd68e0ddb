"""Parses durations such as 250ms, 30s, 10m, 24h, 7d."""

import re
from typing import Final

from lacuna.errors import UserError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: A hundred years; a process can sleep for twice that.
_LONGEST: Final = 36_500 * _SECONDS["d"]
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)")


def parse_duration(text: str, what: str) -> float:
    """Parses a duration into seconds, more than 0 and at most a century; `what` names the option for the error.

    Raises UserError.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        raise UserError(f"{what} {text}: write a duration such as 30s, 10m, 24h or 7d")
    return seconds
