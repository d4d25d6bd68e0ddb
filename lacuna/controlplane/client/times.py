"""Times and durations as people write them; and times as they are told."""

import re
from datetime import UTC, datetime
from typing import Final

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: A hundred years; a process can sleep for twice that.
_LONGEST: Final = 36_500 * _SECONDS["d"]
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)")
#: Fewer digits may be a date.
_MILLISECONDS: Final = re.compile(r"[0-9]{9,15}", re.ASCII)


def seconds_of(text: str) -> float | None:
    """Return a duration such as 250ms, 30s, 10m, 24h, 7d in seconds: more than 0, at most a century. Else None."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    return seconds if 0 < seconds <= _LONGEST else None


def time_of(text: str, now_ms: int) -> int | None:
    """Return the milliseconds since 1970 of a time in ISO 8601, or of a duration ago (10m or -10m). Else None.

    A time that names no zone is local.
    """
    ago = seconds_of(text.removeprefix("-"))
    if ago is not None:
        return max(now_ms - round(ago * 1000), 0)
    try:
        return max(round(datetime.fromisoformat(text).timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        return None


def past_time_of(text: str, now_ms: int) -> int:
    """Return the milliseconds since 1970 of a time as `time_of` takes it, or given as milliseconds since 1970.

    Raises ValueError, whose message says what to write, for other text and for times to come.
    """
    found = int(text) if _MILLISECONDS.fullmatch(text) else time_of(text, now_ms)
    if found is None:
        raise ValueError(
            "write a time such as 2026-11-26T13:00 or 2026-11-26T12:00Z, milliseconds since 1970, or -15m for fifteen "
            "minutes ago"
        )
    if found > now_ms:
        raise ValueError("that is in the future; give a time that has passed")
    return found


def show_time(time_ms: int) -> str:
    """Return a time as ISO 8601 writes it, to the second, in local time with its difference to UTC."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).astimezone().isoformat()
