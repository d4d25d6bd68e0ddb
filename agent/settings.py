"""Settings of an agent, checked once when they are made."""

from dataclasses import dataclass

MEBIBYTE = 1 << 20


class SettingsError(ValueError):
    """A setting that cannot work. The message names it and says what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What an operator may choose. Kafka's name of a setting stands beside it where there is one.

    Raises SettingsError.
    """

    advertised_host: str = "127.0.0.1"
    """advertised.listeners: what clients connect to. The port is the listener's unless set."""
    advertised_port: int = 0
    zone: str = ""
    """broker.rack: clients are sent to agents of the zone of the agent that they ask."""

    auto_create_topics: bool = True
    """auto.create.topics.enable"""
    num_partitions: int = 1
    """num.partitions: of topics made without a count."""

    max_request_bytes: int = 100 * MEBIBYTE
    """socket.request.max.bytes: a larger frame closes its connection."""
    max_connections: int = (1 << 31) - 1
    """max.connections: further ones are closed at once, as are those beyond the limit of open files."""
    max_idle_ms: int = 600_000
    """connections.max.idle.ms"""
    max_in_flight_requests: int = 100
    """Requests of one connection that were read and not answered; then its reading pauses."""
    max_in_flight_bytes: int = 64 * MEBIBYTE
    """The same in bytes. One request may be larger."""
    max_agent_bytes: int = 512 * MEBIBYTE
    """queued.max.request.bytes: of all connections together."""
    max_stall_ms: int = 10_000
    """A request that has begun and does not go on for so long closes its connection while others
    wait for the memory that it was promised."""
    write_buffer_bytes: int = MEBIBYTE
    """Answers of one connection that its client has not taken; then its next request waits."""
    shutdown_grace_ms: int = 3_000
    """How long a stopping agent goes on answering what it has read."""

    def __post_init__(self) -> None:
        if not self.advertised_host:
            raise SettingsError("advertised_host is empty: give the host that clients connect to")
        _check("advertised_port", self.advertised_port, 0, 65_535)
        _check("num_partitions", self.num_partitions, 1, 100_000)
        _check("max_request_bytes", self.max_request_bytes, 1024, (1 << 31) - 1)
        _check("max_connections", self.max_connections, 1, (1 << 31) - 1)
        _check("max_idle_ms", self.max_idle_ms, 100, 1 << 40)
        _check("max_in_flight_requests", self.max_in_flight_requests, 1, 100_000)
        _check("max_in_flight_bytes", self.max_in_flight_bytes, 1024, 1 << 40)
        _check("max_agent_bytes", self.max_agent_bytes, 1024, 1 << 40)
        _check("max_stall_ms", self.max_stall_ms, 100, 600_000)
        _check("write_buffer_bytes", self.write_buffer_bytes, 1024, 1 << 31)
        _check("shutdown_grace_ms", self.shutdown_grace_ms, 0, 600_000)


def _check(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise SettingsError(f"{name} is {value}: choose a value from {minimum} to {maximum}")
