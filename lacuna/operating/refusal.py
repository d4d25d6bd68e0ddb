"""A change that an agent refused, as returned by the functions that change a cluster."""

from typing import NamedTuple


class Refusal(NamedTuple):
    """A Kafka error code, and the subject that it applies to."""

    subject: str
    error_code: int
    message: str | None = None
