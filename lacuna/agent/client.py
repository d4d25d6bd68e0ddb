"""The client at the other end of a connection: its address, identity and software."""

from dataclasses import dataclass, field
from typing import Final

from lacuna.agent.arrival_order import ArrivalOrder
from lacuna.agent.security.authentication import Authentication

_MOST_OF_NAME: Final = 100


class Once:
    """A flag for a step that is taken once per connection."""

    __slots__ = ("is_due",)

    def __init__(self) -> None:
        self.is_due = True

    def done(self) -> None:
        self.is_due = False


class Software:
    """The name and version of a client's software (ApiVersions v3+, KIP-511), both "" if unknown."""

    __slots__ = ("name", "version")

    def __init__(self) -> None:
        self.name = self.version = ""

    def is_called(self, name: str, version: str) -> None:
        """Record the client's name and version. Values that are too long are truncated."""
        self.name, self.version = name[:_MOST_OF_NAME], version[:_MOST_OF_NAME]

    @property
    def is_librdkafka(self) -> bool:
        """Whether the client is librdkafka or a binding of librdkafka for another language."""
        names_it = "rdkafka" in self.name or "rdkafka" in self.version
        return names_it or self.name.startswith("confluent-kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client that sent a request. `client_id` is the one in the request's header, or "" if that is null.

    `session`, `arrival_order`, `first_fetch` and `software` belong to the client's connection.
    """

    host: str
    port: int
    session: Authentication
    client_id: str = ""
    arrival_order: ArrivalOrder = field(default_factory=ArrivalOrder, compare=False, repr=False)
    first_fetch: Once = field(default_factory=Once, compare=False, repr=False)
    software: Software = field(default_factory=Software, compare=False, repr=False)
