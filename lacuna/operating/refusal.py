"""What an agent refuses, as the functions return it that change a cluster."""

from typing import NamedTuple


class Refusal(NamedTuple):
    """An error code of Kafka's, and what it is about."""

    subject: str
    error_code: int
    message: str | None = None
