"""Parses the points at which reading begins and ends."""

import re
from typing import Final

from lacuna.base.errors import UserError
from lacuna.cli.units import parse_duration
from lacuna.controlplane.client.times import past_time_of
from lacuna.operating.points import Kind, Point, point_of

_AGO: Final = re.compile(r"[0-9.]+ ?[a-z]+", re.ASCII)


def parse_from(text: str, now_ms: int, what: str = "--from") -> Point:
    """Parses earliest, end, end-N, an offset or a time. `what` is the option's name, for
    error messages. Raises UserError.
    """
    return _parse(text, what, "earliest, end, end-100", now_ms)


def parse_until(text: str, now_ms: int) -> Point:
    """Parses never, end, end-N, an offset or a time. Raises UserError."""
    if text == "never":
        return Point(Kind.NEVER)
    point = _parse(text, "--until", "end, never", now_ms)
    if point.kind is Kind.EARLIEST:
        raise UserError("--until earliest is where the log begins: choose a later point")
    return point


def parse_at(text: str, now_ms: int) -> int:
    """Parses the past time at which reading ends. Returns milliseconds since 1970. Raises UserError."""
    try:
        return past_time_of(text, now_ms)
    except ValueError as error:
        raise UserError(f"--at {text}: {error}") from None


def _parse(text: str, what: str, words: str, now_ms: int) -> Point:
    point = point_of(text, now_ms)
    if point is None:
        if _AGO.fullmatch(text):
            parse_duration(text, what)  # its error contains the reason
        raise UserError(
            f"{what} {text}: use {words}, an offset, a time such as 2026-11-26T13:00, or 10m for ten minutes ago"
        )
    if point.kind is Kind.TIME and point.value > now_ms:
        raise UserError(f"{what} {text}: this time is in the future: specify a time in the past")
    return point
