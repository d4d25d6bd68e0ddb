"""What a Python client must offer so that the scenarios can be run with it. Standard library alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Headers = Sequence[tuple[str, "bytes | None"]]


class UnsupportedError(Exception):
    """The client cannot do this; the message says why."""


@dataclass(frozen=True)
class Message:
    """A record that was read; None is null."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True)
class Security:
    """How a client authenticates over SASL_SSL: by SCRAM-SHA-512, or by OAUTHBEARER with the token."""

    mechanism: str
    authorities: str
    user: str
    password: str
    token: str

    @property
    def is_oauth(self) -> bool:
        """Whether it is by OAUTHBEARER."""
        return self.mechanism == "OAUTHBEARER"


@dataclass(frozen=True)
class Settings:
    """How a client is made. `legacy` speaks message sets; `options` are the adapter's own."""

    bootstrap: str
    name: str
    legacy: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    security: Security | None = None


class Consumer(Protocol):
    """One consumer, read_committed where the client has it, auto commit off, from the earliest offset."""

    def assign(self, topic: str, partitions: Sequence[int], offset: int | None = None) -> None:
        """Reads these partitions from `offset`, or from the earliest one."""

    def subscribe(self, topic: str) -> None:
        """Joins the group."""

    def poll(self, seconds: float) -> list[Message]:
        """What came in the meantime; empty where nothing did. Raises the client's error."""

    def has_ended(self, topic: str, partition: int, end: int) -> bool:
        """Whether it has read up to `end`, as the client says; by its position where it says nothing else."""

    def assigned(self) -> int:
        """How many partitions it has."""

    def position(self, topic: str, partition: int) -> int:
        """Where it is, or -1 where it does not know yet."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Earliest and latest offset."""

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commits and waits."""

    def committed(self, topic: str, partition: int) -> int:
        """The group's committed offset, or -1."""

    def close(self) -> None:
        """Leaves the group and ends."""


class Producer(Protocol):
    """One producer, acks=all, idempotent where the client can be."""

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Hands a record over; `flush` waits for it."""

    def flush(self) -> None:
        """Waits for all acknowledgements. Raises where one is an error."""

    def begin(self) -> None:
        """Begins a transaction."""

    def commit(self) -> None:
        """Commits it."""

    def abort(self) -> None:
        """Aborts it."""

    def send_offsets(
        self, consumer: Consumer, group: str, topic: str, partition: int, offset: int
    ) -> None:
        """Adds a consumed offset to the transaction."""

    def close(self) -> None:
        """Ends it."""


class Client(Protocol):
    """An adapter module's `Client(settings)`."""

    def consumer(self, group: str) -> Consumer:
        """A consumer with this group id."""

    def producer(self, codec: str = "none", transactional_id: str | None = None) -> Producer:
        """A producer, its transactions initialised. Raises UnsupportedError."""
