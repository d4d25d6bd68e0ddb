"""The interface that a Python client's adapter implements to run the scenarios. Uses only the standard library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Headers = Sequence[tuple[str, "bytes | None"]]


class UnsupportedError(Exception):
    """The client does not support this operation. The message gives the reason."""


@dataclass(frozen=True)
class Message:
    """A record that the client read. None stands for null."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True)
class Security:
    """How a client authenticates over SASL_SSL: with SCRAM-SHA-512, or with OAUTHBEARER and the token."""

    mechanism: str
    authorities: str
    user: str
    password: str
    token: str

    @property
    def is_oauth(self) -> bool:
        """Whether the mechanism is OAUTHBEARER."""
        return self.mechanism == "OAUTHBEARER"


@dataclass(frozen=True)
class Settings:
    """How to create a client. `legacy` speaks message sets, and `options` are specific to the adapter."""

    bootstrap: str
    name: str
    legacy: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    security: Security | None = None


class Consumer(Protocol):
    """A consumer with auto commit off that starts at the earliest offset, read_committed if the client supports it."""

    def assign(self, topic: str, partitions: Sequence[int], offset: int | None = None) -> None:
        """Read these partitions from `offset`, or from the earliest offset."""

    def subscribe(self, topic: str) -> None:
        """Join the group."""

    def poll(self, seconds: float) -> list[Message]:
        """Return the records that have arrived, possibly none. Raises the client's error."""

    def has_ended(self, topic: str, partition: int, end: int) -> bool:
        """Return whether the client reports that it has read up to `end`. Falls back to its position."""

    def assigned(self) -> int:
        """Return the number of assigned partitions."""

    def position(self, topic: str, partition: int) -> int:
        """Return the position, or -1 if it is not known yet."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the earliest and latest offset."""

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commit and wait."""

    def committed(self, topic: str, partition: int) -> int:
        """Return the group's committed offset, or -1."""

    def close(self) -> None:
        """Leave the group and close."""


class Producer(Protocol):
    """A producer with acks=all, idempotent if the client supports it."""

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Enqueue a record. `flush` waits for it."""

    def flush(self) -> None:
        """Wait for all acknowledgements. Raises if any of them is an error."""

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def send_offsets(
        self, consumer: Consumer, group: str, topic: str, partition: int, offset: int
    ) -> None:
        """Add a consumed offset to the transaction."""

    def close(self) -> None:
        pass


class Client(Protocol):
    """The `Client(settings)` of an adapter module."""

    def consumer(self, group: str) -> Consumer:
        """Return a consumer with this group id."""

    def producer(self, codec: str = "none", transactional_id: str | None = None) -> Producer:
        """Return a producer with initialised transactions. Raises UnsupportedError."""
