"""Configs as DescribeConfigs and CreateTopics show them: values, where they come from, what they mean.

Topic configs are the control plane's table (controlplane/topic_configs.py): those that have an effect.
Those of an agent are its settings, under Kafka's names where Kafka has one; they cannot be altered, nor can
its loggers' levels. Configs of groups are a table too (controlplane/group_configs.py). Client metrics subscriptions
have what holds for all of them.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.apis.log_dirs import LOG_DIR
from controlplane.group_configs import GROUP_CONFIGS
from controlplane.topic_configs import TOPIC_CONFIGS, ConfigType
from controlplane.v1.cluster_pb2 import Agent

if TYPE_CHECKING:
    from agent.context import AgentContext
    from agent.settings import AgentSettings

DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT, DYNAMIC_LOGGER, DYNAMIC_GROUP = 1, 4, 5, 6, 8
_UNKNOWN_TYPE = 0
_LOG4J = (
    (logging.CRITICAL, "FATAL"),
    (logging.ERROR, "ERROR"),
    (logging.WARNING, "WARN"),
    (logging.INFO, "INFO"),
    (logging.DEBUG, "DEBUG"),
)

# No setting of a broker has these, or one in hours, or one that is not set: Kafka shows no synonym then.
_OF_TOPICS_ALONE = frozenset(
    {
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.ms",
        "segment.jitter.ms",
        "segment.ms",
    }
)
# What Kafka calls the broker's default of a topic config, where that is another name.
_BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A value that would hold if those before it were not set."""

    name: str
    value: str
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConfig:
    """One config of a resource. The first synonym, if there is one, is the value that holds."""

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
        broker_name = _BROKER_NAMES.get(config.name, config.name)
        synonyms: tuple[Synonym, ...] = ()
        if config.name not in _OF_TOPICS_ALONE:
            synonyms = (Synonym(name=broker_name, value=config.default, source=DEFAULT),)
        value, source = config.default, DEFAULT
        if config.name in configs:
            value, source = configs[config.name], DYNAMIC_TOPIC
            synonyms = (Synonym(name=config.name, value=value, source=source), *synonyms)
        yield ShownConfig(
            name=config.name,
            value=value,
            source=source,
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
        _static("authorizer.class.name", ConfigType.STRING, "", "There is no authorizer yet."),
        _static("broker.id", ConfigType.INT, str(agent.node_id)),
        _static("broker.rack", ConfigType.STRING, agent.zone),
        _static(
            "log.dirs", ConfigType.STRING, LOG_DIR, "The object store, which all agents share."
        ),
        _static("delete.topic.enable", ConfigType.BOOLEAN, "true"),
        _static(
            "group.coordinator.rebalance.protocols",
            ConfigType.LIST,
            "classic,consumer",
            "Groups of consumers: the classic protocol and that of KIP-848.",
        ),
        _static("node.id", ConfigType.INT, str(agent.node_id)),
        *_group_bounds(),
        *_topic_defaults(),
        *(
            _static(each.name, each.type, _text(each.value(context.settings)), each.documentation)
            for each in _AGENT_CONFIGS
        ),
    ]
    return sorted(shown, key=lambda config: config.name)


def _group_bounds() -> Iterable[ShownConfig]:
    """What a group has where nothing was set, and what may be set, under the names that brokers have for it."""
    for config in GROUP_CONFIGS.values():
        name = f"group.{config.name}"
        yield _default(name, ConfigType.INT, str(config.default), config.documentation)
        for bound, value in (
            (config.lowest_name, config.lowest),
            (config.highest_name, config.highest),
        ):
            text = f"What {config.name} of a group may be."
            yield _default(bound, ConfigType.INT, str(value), text)


def _topic_defaults() -> Iterable[ShownConfig]:
    """What a topic has where nothing was set, under the names that brokers have for it."""
    for config in TOPIC_CONFIGS.values():
        if config.name not in _OF_TOPICS_ALONE:
            name = _BROKER_NAMES.get(config.name, config.name)
            yield _default(name, config.type, config.default, config.documentation)


def of_loggers() -> Iterable[ShownConfig]:
    """The loggers of this agent with log4j's names of their levels; others are taken to have the same."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("lacuna")]
    levels = {"root": logging.root.level}
    levels.update((name, logging.getLogger(name).getEffectiveLevel()) for name in sorted(names))
    for name, level in levels.items():
        yield ShownConfig(
            name=name,
            value=_log4j_level(level),
            source=DYNAMIC_LOGGER,
            is_read_only=True,
            type=_UNKNOWN_TYPE,
            documentation="",
            synonyms=(),
        )


def _log4j_level(level: int) -> str:
    return next((name for least, name in _LOG4J if level >= least), "TRACE")


def _default(name: str, kind: ConfigType, value: str, documentation: str) -> ShownConfig:
    return ShownConfig(
        name=name,
        value=value,
        source=DEFAULT,
        is_read_only=True,
        type=kind,
        documentation=documentation,
        synonyms=(Synonym(name=name, value=value, source=DEFAULT),),
    )


#: Of any subscription: nothing is collected (docs/adr/0017).
CLIENT_METRICS = [
    _default(
        "interval.ms", ConfigType.INT, "300000", "How often clients ask; nothing is collected."
    ),
    _default("match", ConfigType.LIST, "", "Nothing is collected."),
    _default("metrics", ConfigType.LIST, "", "Nothing is collected."),
]


def of_group(configs: Mapping[str, str]) -> Iterable[ShownConfig]:
    """All configs of a group on which `configs` were set, by name; one synonym, as in Kafka."""
    for config in GROUP_CONFIGS.values():
        value, source = str(config.default), DEFAULT
        if config.name in configs:
            value, source = configs[config.name], DYNAMIC_GROUP
        yield ShownConfig(
            name=config.name,
            value=value,
            source=source,
            is_read_only=False,
            type=ConfigType.INT,
            documentation=config.documentation,
            synonyms=(Synonym(name=config.name, value=value, source=source),),
        )


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
