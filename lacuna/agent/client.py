"""The client at the other end of a connection: where it is, who it is, and what it says of its software."""

from dataclasses import dataclass, field
from typing import Final

from lacuna.agent.arrival_order import ArrivalOrder
from lacuna.agent.security.session import Session

_MOST_OF_NAME: Final = 100


class Once:
    """Whether something is still to be done, once for each connection."""

    __slots__ = ("is_due",)

    def __init__(self) -> None:
        self.is_due = True

    def done(self) -> None:
        """Note that it was done."""
        self.is_due = False


class Software:
    """What a client says that it is (ApiVersions v3+, KIP-511): a name and a version, both "" if it says nothing."""

    __slots__ = ("name", "version")

    def __init__(self) -> None:
        self.name = self.version = ""

    def is_called(self, name: str, version: str) -> None:
        """Note what the client says; what is too long for a name is cut."""
        self.name, self.version = name[:_MOST_OF_NAME], version[:_MOST_OF_NAME]

    @property
    def is_librdkafka(self) -> bool:
        """Whether it is librdkafka, or a client of another language that contains it."""
        names_it = "rdkafka" in self.name or "rdkafka" in self.version
        return names_it or self.name.startswith("confluent-kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client that sent a request. `client_id` is from the request's header, "" if it was null.

    `session`, `arrival_order`, `first_fetch` and `software` belong to the client's connection.
    """

    host: str
    port: int
    session: Session
    client_id: str = ""
    arrival_order: ArrivalOrder = field(default_factory=ArrivalOrder, compare=False, repr=False)
    first_fetch: Once = field(default_factory=Once, compare=False, repr=False)
    software: Software = field(default_factory=Software, compare=False, repr=False)
