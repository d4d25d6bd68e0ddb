"""Settings of an agent, checked when they are created."""

from dataclasses import dataclass
from typing import Final

from lacuna.agent.security.listeners import Listener
from lacuna.base.setting import LARGEST_INT, MEBIBYTE, check_settings, setting

_LONGEST_WAIT_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How an agent serves its connections. Raises SettingsError."""

    listeners: tuple[Listener, ...] = (Listener(),)
    """The addresses to which clients connect. Agents connect to each other's first listener."""
    zone: str = setting(
        "broker.rack",
        "",
        "Availability zone of the agent. Clients that specify a zone are sent to agents in that zone.",
        option="--zone",
        panel="Clients",
    )
    auto_create_topics: bool = setting(
        "auto.create.topics.enable",
        True,
        "Create a topic when a client first uses it.",
        option="--no-auto-create",
        flag=False,
        help="Do not create topics automatically. An unknown topic is then an error.",
        panel="Automatic topics",
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        "The number of partitions in a topic that is created without a partition count.",
        least=1,
        most=100_000,
        option="--partitions",
        panel="Automatic topics",
    )
    max_request_bytes: int = setting(
        "socket.request.max.bytes",
        100 * MEBIBYTE,
        "The maximum size of a request. The agent closes the connection if a request is larger.",
        least=1024,
        most=LARGEST_INT,
    )
    max_connections: int = setting(
        "max.connections",
        LARGEST_INT,
        "The maximum number of connections. The agent immediately closes new connections beyond this limit, or "
        "beyond the limit on open files.",
        least=1,
        most=LARGEST_INT,
    )
    max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        "How long a connection may be silent before the agent closes it.",
        least=100,
    )
    max_agent_bytes: int = setting(
        "queued.max.request.bytes",
        512 * MEBIBYTE,
        "The maximum number of bytes in unanswered requests, on all connections together. At this limit, the agent "
        "stops reading requests.",
        least=1024,
    )
    hand_over_ms: int = setting(
        "shutdown.handover.ms",
        10_000,
        "How long a stopping agent waits for its clients to move to other agents, before it finishes the requests "
        "already read.",
        most=_LONGEST_WAIT_MS,
    )
    shutdown_grace_ms: int = setting(
        "shutdown.grace.ms",
        3_000,
        "How long a stopping agent continues to answer the requests already read.",
        most=_LONGEST_WAIT_MS,
    )

    max_offsets_wait_ms: int = 3_000
    """A connection that sent AddOffsetsToTxn and has been silent for this long is closed. librdkafka may be waiting for
    a coordinator that it has forgotten, and looks it up again when a connection breaks (adr/0018)."""
    max_in_flight_requests: int = 100
    """Reading from a connection pauses while this many of its requests have been read but not answered."""
    max_in_flight_bytes: int = 64 * MEBIBYTE
    """Reading from a connection pauses while its unanswered requests take up this many bytes. A single request may be
    larger."""
    max_stall_ms: int = 10_000
    """If a request has arrived in part, and the rest of it arrives slowly or not at all for this long, its connection
    is closed, but only while others are waiting for memory."""
    write_buffer_bytes: int = MEBIBYTE
    """The next request on a connection waits while the client has this many bytes of answers left to read."""

    def __post_init__(self) -> None:
        check_settings(self)
