"""Configs that can be set at run time, for all brokers or for one: defaults of topic configs, and connection limits.

They are stored under Kafka's names for broker configs, some of which differ from the names of topic configs. A config
of one broker is stored with the broker's id: "1:max.connections". Defaults of topic configs apply to the whole cluster,
so for a single broker, they can only be displayed. Configs that tune a broker's files, threads and caches (TUNING) are
validated and displayed as in Kafka 4.4, but have no effect. Those in DEAD_LETTER_RULES determine which topics share
groups may use as dead-letter queues.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lacuna.controlplane.shared.config_values import (
    LONG_MAX,
    Check,
    ConfigType,
    boolean,
    items_of,
    real,
    some_of,
    whole,
)
from lacuna.controlplane.shared.topic_configs import (
    DEAD_LETTERS,
    DELETE,
    MIRROR_SOURCE,
    SET,
    TOPIC_CONFIGS,
    InvalidConfig,
    TopicConfig,
    alter,
)

#: Broker configs that set the default of a topic config under a different name.
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
    "remote.copy.lag.bytes": "log.remote.copy.lag.bytes",
    "remote.copy.lag.ms": "log.remote.copy.lag.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
}
#: Topic configs whose default is not set by any broker config.
_OF_TOPICS_ALONE: Final = frozenset(
    {
        DEAD_LETTERS,
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        MIRROR_SOURCE,
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)
#: The topic config whose default each broker config sets.
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
_INT_MAX: Final = 2**31 - 1
#: The one log directory that an agent reports, which stands for the object store. It is not a real path, and is the
#: same for all agents.
LOG_DIR: Final = "/lacuna/objects"
#: The only config that can be set for individual brokers.
CORDONED: Final = "cordoned.log.dirs"
_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"
_OVERRIDE: Final = re.compile(r"[^\s,]{1,255}:[0-9]{1,10}")


def _tunes(name: str, kind: ConfigType, default: object, check: Check) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=kind,
        default=str(default),
        documentation="It tunes the files, threads or caches of a Kafka broker, and has no effect here.",
        check=check,
    )


def _int(name: str, default: int, lowest: int, highest: int = _INT_MAX) -> TopicConfig:
    return _tunes(name, ConfigType.INT, default, whole(ConfigType.INT, lowest, highest))


def _long(name: str, default: int, lowest: int) -> TopicConfig:
    return _tunes(name, ConfigType.LONG, default, whole(ConfigType.LONG, lowest))


def _overrides(value: str) -> str:
    """Check a list of the form HOST:COUNT,…"""
    items = items_of(value)
    if any(_OVERRIDE.fullmatch(each) is None for each in items):
        raise ValueError("Expected a list of HOST:COUNT")
    return ",".join(items)


def _flag(name: str, default: str) -> TopicConfig:
    return _tunes(name, ConfigType.BOOLEAN, default, boolean)


#: Dynamic configs of Kafka 4.4 that have no effect, by name.
TUNING: Final[Mapping[str, TopicConfig]] = MappingProxyType(
    {
        config.name: config
        for config in (
            _int("background.threads", 10, 1),
            _tunes("config.providers", ConfigType.LIST, "", str.strip),
            _tunes(CORDONED, ConfigType.LIST, "", some_of("*", LOG_DIR)),
            _flag("follower.fetch.last.tiered.offset.enable", "false"),
            _long("follower.replication.throttled.rate", LONG_MAX, 0),
            _int("group.consumer.assignment.interval.ms", 1_000, 0),
            _flag("group.consumer.assignor.offload.enable", "true"),
            _int("group.coordinator.cached.buffer.max.bytes", 1_048_588, 524_288),
            _int("group.share.assignment.interval.ms", 1_000, 0),
            _flag("group.share.assignor.offload.enable", "true"),
            _int("group.streams.assignment.interval.ms", 1_000, 0),
            _flag("group.streams.assignor.offload.enable", "true"),
            _long("leader.replication.throttled.rate", LONG_MAX, 0),
            _long("log.cleaner.backoff.ms", 15_000, 0),
            _long("log.cleaner.dedupe.buffer.size", 134_217_728, 1 << 20),
            _tunes("log.cleaner.io.buffer.load.factor", ConfigType.DOUBLE, 0.9, real),
            _int("log.cleaner.io.buffer.size", 524_288, 0),
            _tunes(
                "log.cleaner.io.max.bytes.per.second",
                ConfigType.DOUBLE,
                "1.7976931348623157E308",
                real,
            ),
            _int("log.cleaner.threads", 1, 0),
            _int("max.connection.creation.rate", _INT_MAX, 0),
            _tunes("max.connections.per.ip.overrides", ConfigType.STRING, "", _overrides),
            _tunes("metric.reporters", ConfigType.LIST, _REPORTER, some_of(_REPORTER)),
            _int("num.io.threads", 8, 1),
            _int("num.network.threads", 3, 1),
            _int("num.recovery.threads.per.data.dir", 2, 1),
            _int("num.replica.fetchers", 1, 1),
            _int("producer.id.expiration.ms", 86_400_000, 1),
            _int("remote.fetch.max.wait.ms", 500, 1),
            _long("remote.list.offsets.request.timeout.ms", 30_000, 1),
            _long("remote.log.index.file.cache.total.size.bytes", 1 << 30, 1),
            _int("remote.log.manager.copier.thread.pool.size", 10, 1),
            _long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, 1),
            _int("remote.log.manager.expiration.thread.pool.size", 10, 1),
            _long("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, 1),
            _int("remote.log.manager.follower.thread.pool.size", 2, 1),
            _int("remote.log.reader.threads", 10, 1),
            _long("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, 0),
            _int("share.coordinator.cached.buffer.max.bytes", 1_048_588, 524_288),
            _flag("transaction.partition.verification.enable", "true"),
        )
    }
)


DEAD_LETTER_CREATION: Final = "errors.deadletterqueue.auto.create.topics.enable"
DEAD_LETTER_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
DEAD_LETTER_RULES: Final[Mapping[str, TopicConfig]] = MappingProxyType(
    {
        DEAD_LETTER_CREATION: TopicConfig(
            name=DEAD_LETTER_CREATION,
            type=ConfigType.BOOLEAN,
            default="false",
            documentation="Whether the dead-letter queue of a share group is created when it is first needed.",
            check=boolean,
        ),
        DEAD_LETTER_PREFIX: TopicConfig(
            name=DEAD_LETTER_PREFIX,
            type=ConfigType.STRING,
            default="dlq.",
            documentation="The prefix that names of dead-letter queues must have. If empty, they may have any name.",
            check=str,
        ),
    }
)
#: Dynamic configs that are neither defaults of topic configs nor connection limits.
DYNAMIC: Final[Mapping[str, TopicConfig]] = MappingProxyType({**TUNING, **DEAD_LETTER_RULES})


def broker_name(topic_config: str) -> str:
    """Return the broker config that sets the default of a topic config."""
    return _OF_TOPIC_CONFIGS.get(topic_config, topic_config)


def can_be_set(name: str) -> bool:
    """Return whether a config can be set while brokers run."""
    return name in TOPIC_CONFIG_OF or name in DYNAMIC or name in _LIMITS


def stored_name(broker: str, name: str) -> str:
    """Return the name under which a config of one broker, or of all brokers if `broker` is empty, is stored."""
    return f"{broker}:{name}" if broker else name


def plain_name(stored: str) -> str:
    """Return the name of a config without its broker id."""
    return stored.rpartition(":")[2]


def of_broker(configs: Mapping[str, str], broker: str) -> dict[str, str]:
    """Return the configs of one broker, or those of all brokers if `broker` is empty."""
    return {
        plain_name(stored): value
        for stored, value in configs.items()
        if stored.rpartition(":")[0] == broker
    }


def changed(configs: Mapping[str, str], name: str, operation: int, value: str) -> dict[str, str]:
    """Return the configs of one broker, or of all brokers, after an operation of IncrementalAlterConfigs. Raises
    InvalidConfig.
    """
    topic_config = TOPIC_CONFIG_OF.get(name)
    if topic_config is not None:
        before = {topic_config: configs[name]} if name in configs else {}
        try:
            after = alter(before, topic_config, operation, value).get(topic_config)
        except InvalidConfig as invalid:
            raise InvalidConfig(str(invalid).replace(topic_config, name, 1)) from invalid
    else:
        after = _changed(name, operation, value)
    others = {other: kept for other, kept in configs.items() if other != name}
    return others if after is None else {**others, name: after}


def _changed(name: str, operation: int, value: str) -> str | None:
    """Return the value of a config after a SET or DELETE operation, or None if it is no longer set. Raises
    InvalidConfig.
    """
    if operation == DELETE:
        return None
    if operation != SET:
        raise InvalidConfig(f"{name} can only be set or deleted.")
    try:
        return DYNAMIC[name].check(value) if name in DYNAMIC else _check_limit(value)
    except ValueError as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error


def topic_defaults(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of topic configs that are set for all brokers."""
    return {
        TOPIC_CONFIG_OF[name]: value for name, value in configs.items() if name in TOPIC_CONFIG_OF
    }
