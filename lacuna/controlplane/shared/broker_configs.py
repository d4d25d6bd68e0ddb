"""Configs that can be set for all brokers at run time: defaults of topic configs, and connection limits.

They are stored under Kafka's names for broker configs, some of which differ from those of the topic configs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lacuna.controlplane.shared.config_values import ConfigType, whole
from lacuna.controlplane.shared.topic_configs import (
    DELETE,
    MIRROR_SOURCE,
    SET,
    TOPIC_CONFIGS,
    InvalidConfig,
    alter,
)

#: The broker configs that set the defaults of topic configs, where the names differ.
_OF_TOPIC_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
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
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
}
#: Topic configs whose default no broker config sets.
_OF_TOPICS_ALONE: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        MIRROR_SOURCE,
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)
#: The topic config whose default a broker config sets.
TOPIC_CONFIG_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        _OF_TOPIC_CONFIGS.get(name, name): name
        for name in TOPIC_CONFIGS
        if name not in _OF_TOPICS_ALONE
    }
)
MAX_CONNECTIONS: Final = "max.connections"
MAX_CONNECTIONS_PER_IP: Final = "max.connections.per.ip"
_LIMITS: Final = (MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP)
_check_limit: Final = whole(ConfigType.INT, 1)


def broker_name(topic_config: str) -> str:
    """Return the broker config that sets the default of a topic config."""
    return _OF_TOPIC_CONFIGS.get(topic_config, topic_config)


def can_be_set(name: str) -> bool:
    """Return whether a config can be set for all brokers while they run."""
    return name in TOPIC_CONFIG_OF or name in _LIMITS


def changed(configs: Mapping[str, str], name: str, operation: int, value: str) -> dict[str, str]:
    """Return the configs of all brokers after one operation of IncrementalAlterConfigs. Raises InvalidConfig."""
    topic_config = TOPIC_CONFIG_OF.get(name)
    if topic_config is not None:
        before = {topic_config: configs[name]} if name in configs else {}
        after = alter(before, topic_config, operation, value).get(topic_config)
    else:
        after = _limit(name, operation, value)
    others = {other: kept for other, kept in configs.items() if other != name}
    return others if after is None else {**others, name: after}


def _limit(name: str, operation: int, value: str) -> str | None:
    """Return a limit after an operation, SET or DELETE; None if it is not set. Raises InvalidConfig."""
    if operation == DELETE:
        return None
    if operation != SET:
        raise InvalidConfig(f"{name} is not a list: set it or delete it.")
    try:
        return _check_limit(value)
    except ValueError as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error


def topic_defaults(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the topic configs that are set by configs of all brokers."""
    return {
        TOPIC_CONFIG_OF[name]: value for name, value in configs.items() if name in TOPIC_CONFIG_OF
    }
