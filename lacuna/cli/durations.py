"""Parses durations such as 250ms, 30s, 10m, 24h, 7d."""

from lacuna.base.errors import UserError
from lacuna.controlplane.client.times import seconds_of


def parse_duration(text: str, what: str) -> float:
    """Return a duration in seconds, more than 0 and at most a century.

    `what` names the option in errors. Raises UserError.
    """
    seconds = seconds_of(text)
    if seconds is None:
        raise UserError(f"{what} {text}: write a duration such as 30s, 10m, 24h or 7d")
    return seconds
