"""Parses times and durations that users enter, and formats times for display."""

import re
from datetime import UTC, datetime, tzinfo
from typing import Final

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: A hundred years. A process can sleep for twice that.
_LONGEST: Final = 36_500 * _SECONDS["d"]
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)")
#: Text with fewer digits may be a date.
_MILLISECONDS: Final = re.compile(r"[0-9]{9,15}", re.ASCII)


def seconds_of(text: str) -> float | None:
    """Return a duration such as 250ms, 30s, 10m, 24h or 7d in seconds, or None if it is malformed, 0, or longer than a
    century.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    return seconds if 0 < seconds <= _LONGEST else None


def time_of(text: str, now_ms: int, zone: tzinfo | None = None) -> int | None:
    """Return a time, given in ISO 8601 or as an age (10m or -10m), in milliseconds since 1970. Return None for any
    other text. A time without a zone is in `zone`, or in local time if that is None.
    """
    ago = seconds_of(text.removeprefix("-"))
    if ago is not None:
        return max(now_ms - round(ago * 1000), 0)
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone)
        return max(round(time.timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        return None


def past_time_of(text: str, now_ms: int) -> int:
    """Return a past time in milliseconds since 1970, given in this form or in any form that `time_of` accepts.

    Raises ValueError for other text and for future times. The message names the accepted forms.
    """
    found = int(text) if _MILLISECONDS.fullmatch(text) else time_of(text, now_ms)
    if found is None:
        raise ValueError(
            "use a time such as 2026-11-26T13:00 or 2026-11-26T12:00Z, milliseconds since 1970, or -15m for fifteen "
            "minutes ago"
        )
    if found > now_ms:
        raise ValueError("that time is in the future; specify a past time")
    return found


def show_time(time_ms: int) -> str:
    """Return a time in ISO 8601, to the second, as local time with a UTC offset."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).astimezone().isoformat()
