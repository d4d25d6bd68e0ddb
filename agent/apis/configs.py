"""Configs as DescribeConfigs and CreateTopics show them: values, where they come from, what they mean.

Topic configs are the control plane's table (controlplane/topic_configs.py): those that have an effect.
Those of an agent are its settings, under Kafka's names where Kafka has one; they cannot be altered.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.topic_configs import TOPIC_CONFIGS, ConfigType
from controlplane.v1.cluster_pb2 import Agent

if TYPE_CHECKING:
    from agent.context import AgentContext
    from agent.settings import AgentSettings

DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5

# What Kafka calls the broker's default of a topic config, where that is another name.
_BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A value that would hold if those before it were not set."""

    name: str
    value: str
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConfig:
    """One config of a resource. The first synonym is the value that holds."""

    name: str
    value: str
    source: int
    is_read_only: bool
    type: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def of_topic(configs: Mapping[str, str]) -> Iterable[ShownConfig]:
    """All configs of a topic on which `configs` were set, by name."""
    for config in TOPIC_CONFIGS.values():
        default = Synonym(
            name=_BROKER_NAMES.get(config.name, config.name), value=config.default, source=DEFAULT
        )
        synonyms: tuple[Synonym, ...] = (default,)
        if config.name in configs:
            own = Synonym(name=config.name, value=configs[config.name], source=DYNAMIC_TOPIC)
            synonyms = (own, default)
        yield ShownConfig(
            name=config.name,
            value=synonyms[0].value,
            source=synonyms[0].source,
            is_read_only=False,
            type=config.type,
            documentation=config.documentation,
            synonyms=synonyms,
        )


@dataclass(frozen=True, slots=True)
class _AgentConfig:
    name: str
    type: ConfigType
    value: "Callable[[AgentSettings], object]"
    documentation: str


_AGENT_CONFIGS = (
    _AgentConfig(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        lambda settings: settings.auto_create_topics,
        "Metadata creates topics that do not exist.",
    ),
    _AgentConfig(
        "connections.max.idle.ms",
        ConfigType.LONG,
        lambda settings: settings.max_idle_ms,
        "Connections without traffic are closed after this time.",
    ),
    _AgentConfig(
        "default.replication.factor",
        ConfigType.INT,
        lambda _: 1,
        "There are no replicas: records are in the object store before they are acknowledged.",
    ),
    _AgentConfig(
        "max.connections",
        ConfigType.INT,
        lambda settings: settings.max_connections,
        "Further connections are closed at once.",
    ),
    _AgentConfig(
        "num.partitions",
        ConfigType.INT,
        lambda settings: settings.num_partitions,
        "Partitions of a topic that is created without a count.",
    ),
    _AgentConfig(
        "queued.max.request.bytes",
        ConfigType.LONG,
        lambda settings: settings.max_agent_bytes,
        "Bytes of requests that are held at once.",
    ),
    _AgentConfig(
        "socket.request.max.bytes",
        ConfigType.INT,
        lambda settings: settings.max_request_bytes,
        "A larger request closes its connection.",
    ),
)


def of_agent(context: "AgentContext", agent: Agent) -> Iterable[ShownConfig]:
    """The configs of an agent. All agents of a cluster are taken to have our settings but the address."""
    shown = [
        _static(
            "advertised.listeners", ConfigType.STRING, f"PLAINTEXT://{agent.host}:{agent.port}"
        ),
        _static("broker.id", ConfigType.INT, str(agent.node_id)),
        _static("broker.rack", ConfigType.STRING, agent.zone),
        *(
            _static(each.name, each.type, _text(each.value(context.settings)), each.documentation)
            for each in _AGENT_CONFIGS
        ),
    ]
    return sorted(shown, key=lambda config: config.name)


def _static(name: str, kind: ConfigType, value: str, documentation: str = "") -> ShownConfig:
    return ShownConfig(
        name=name,
        value=value,
        source=STATIC_BROKER,
        is_read_only=True,
        type=kind,
        documentation=documentation,
        synonyms=(Synonym(name=name, value=value, source=STATIC_BROKER),),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
