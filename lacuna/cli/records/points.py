"""The points at which reading begins and ends: offsets, ends and times in a user's notation."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lacuna.base.errors import UserError
from lacuna.cli.units import parse_duration
from lacuna.controlplane.client.times import past_time_of, time_of

_OFFSET: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_END: Final = re.compile(r"end(?:-([0-9]{1,19}))?", re.ASCII)
_AGO: Final = re.compile(r"[0-9.]+ ?[a-z]+", re.ASCII)
_LAST_OFFSET: Final = (1 << 63) - 1


class Kind(Enum):
    """The origin from which a point is counted."""

    EARLIEST = "earliest"
    END = "end"
    OFFSET = "offset"
    TIME = "time"
    NEVER = "never"
    PAST = "past"


@dataclass(frozen=True, slots=True)
class Point:
    """A place in every partition.

    `value` is an offset, a time in milliseconds since 1970, or a number of offsets before the end. TIME is the first
    record with that time or a later one. PAST is the end of the partition at that time.
    """

    kind: Kind
    value: int = 0


def parse_from(text: str, now_ms: int, what: str = "--from") -> Point:
    """Parses earliest, end, end-N, an offset or a time. `what` names the option in errors. Raises UserError."""
    if text == "earliest":
        return Point(Kind.EARLIEST)
    return _parse(text, what, "earliest, end, end-100", now_ms)


def parse_until(text: str, now_ms: int) -> Point:
    """Parses never, end, end-N, an offset or a time. Raises UserError."""
    if text == "never":
        return Point(Kind.NEVER)
    return _parse(text, "--until", "end, never", now_ms)


def parse_at(text: str, now_ms: int) -> int:
    """Parses the time of a past end into milliseconds since 1970. Raises UserError."""
    try:
        return past_time_of(text, now_ms)
    except ValueError as error:
        raise UserError(f"--at {text}: {error}") from None


def _parse(text: str, what: str, words: str, now_ms: int) -> Point:
    if _OFFSET.fullmatch(text) and int(text) <= _LAST_OFFSET:
        return Point(Kind.OFFSET, int(text))
    if match := _END.fullmatch(text):
        return Point(Kind.END, int(match[1] or 0))
    if _AGO.fullmatch(text):
        parse_duration(text, what)  # the error below has the reason
    time_ms = time_of(text, now_ms)
    if time_ms is None:
        raise UserError(
            f"{what} {text}: write {words}, an offset, a time such as 2026-11-26T13:00, or 10m for ten minutes ago"
        )
    if time_ms > now_ms:
        raise UserError(f"{what} {text}: this time is in the future: write a time that has passed")
    return Point(Kind.TIME, time_ms)
