"""A change that an agent has refused."""

from typing import NamedTuple


class Refusal(NamedTuple):
    """A Kafka error code and its subject."""

    subject: str
    error_code: int
    message: str | None = None
