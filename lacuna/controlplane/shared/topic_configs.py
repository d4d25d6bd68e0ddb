"""Topic configs: all those of Kafka 4.4, with types, defaults and Kafka's checks (docs/adr/0005).

Most have the effect that Kafka documents. Some only tune a broker's files, which Lacuna does not have. These are
accepted and displayed without effect, since their guarantees to clients hold with any value. A value whose guarantee
could not be met is rejected, as is an unknown name. The control plane (CreateTopics, AlterConfigs) and the agents
(DescribeConfigs) share this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.shared.config_values import (
    LONG_MAX,
    Check,
    ConfigType,
    boolean,
    items_of,
    mirrored_topic,
    one_of,
    ratio,
    shorten,
    some_of,
    throttled_replicas,
    whole,
)


class InvalidConfig(ValueError):
    """A config cannot have this value. The message is for the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One config. `check` returns a value as stored, or raises ValueError."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    check: Check


def _long(name: str, default: int, lowest: int, documentation: str) -> TopicConfig:
    check = whole(ConfigType.LONG, lowest)
    return TopicConfig(
        name=name,
        type=ConfigType.LONG,
        default=str(default),
        documentation=documentation,
        check=check,
    )


def _int(
    name: str,
    default: int,
    lowest: int,
    documentation: str,
    highest: int | None = None,
    also: int | None = None,
) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.INT,
        default=str(default),
        documentation=documentation,
        check=whole(ConfigType.INT, lowest, highest, also),
    )


def _boolean(name: str, documentation: str, check: Check = boolean) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.BOOLEAN,
        default="false",
        documentation=documentation,
        check=check,
    )


def _throttled(name: str) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.LIST,
        default="",
        documentation="No effect: there are no replicas, and nothing moves between agents.",
        check=throttled_replicas,
    )


def _not_tiered(value: str) -> str:
    if boolean(value) == "true":
        raise ValueError(
            "Tiered Storage functionality is disabled: all records are in the object "
            "store from the start. Omit this config"
        )
    return "false"


#: The config of a topic that mirrors one of another cluster (controlplane/verbs/importing.py).
MIRROR_SOURCE: Final = "mirror.source"
DEAD_LETTERS: Final = "errors.deadletterqueue.group.enable"
# Kafka's limit. Without one, appending could make a list grow forever.
_LONGEST_VALUE: Final = 32_767
_SMALLEST_SEGMENT: Final = 1 << 20  # Kafka 4's, KIP-1030
_LARGEST_RECORD: Final = 2**31 - 9  # the largest array of Java
_NO_FILES: Final = "No effect: records are in objects, so there are no broker files to tune."

_CONFIGS: Final = (
    TopicConfig(
        name="cleanup.policy",
        type=ConfigType.LIST,
        default="delete",
        documentation="delete: retention deletes old records. compact: every record needs a key, and agents keep the "
        "last record of each key; without delete, retention deletes nothing. "
        "Neither: all records are kept.",
        check=some_of("compact", "delete"),
    ),
    _int(
        "compression.gzip.level",
        -1,
        1,
        "The compression level if compression.type is gzip.",
        9,
        also=-1,
    ),
    _int("compression.lz4.level", 9, 1, "The compression level if compression.type is lz4.", 17),
    TopicConfig(
        name="compression.type",
        type=ConfigType.STRING,
        default="producer",
        documentation="producer: batches keep the codec that their producer chose. Otherwise, an agent "
        "recompresses every batch that uses a different codec.",
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _int(
        "compression.zstd.level",
        3,
        -131_072,
        "The compression level if compression.type is zstd; a level below 1 counts as 1.",
        22,
    ),
    _long(
        "delete.retention.ms",
        86_400_000,
        0,
        "How long compaction keeps a tombstone, for consumers that read from the beginning.",
    ),
    _boolean(
        DEAD_LETTERS,
        "Whether share groups may use the topic as their dead-letter queue.",
    ),
    _long("file.delete.delay.ms", 60_000, 0, _NO_FILES),
    _long(
        "flush.messages",
        LONG_MAX,
        1,
        "No effect: every record is in the object store before it is acknowledged.",
    ),
    _long(
        "flush.ms",
        LONG_MAX,
        0,
        "No effect: every record is in the object store before it is acknowledged.",
    ),
    _throttled("follower.replication.throttled.replicas"),
    _int("index.interval.bytes", 4096, 0, _NO_FILES),
    _throttled("leader.replication.throttled.replicas"),
    _long("local.retention.bytes", -2, -2, "No effect: agents keep no records on disk."),
    _long("local.retention.ms", -2, -2, "No effect: agents keep no records on disk."),
    _long(
        "max.compaction.lag.ms",
        LONG_MAX,
        1,
        "Records older than this are compacted as soon as possible, regardless of min.cleanable.dirty.ratio.",
    ),
    _int(
        "max.decompressed.message.bytes",
        _LARGEST_RECORD,
        1,
        "The largest record that a compressed batch may contain, in bytes after decompression.",
        _LARGEST_RECORD,
    ),
    _int(
        "max.message.bytes",
        1_048_588,
        0,
        "The largest record batch that is accepted, in bytes after compression.",
    ),
    _long(
        "message.timestamp.after.max.ms",
        3_600_000,
        0,
        "How far a producer's timestamp may be ahead of the time of arrival; only with CreateTime.",
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        0,
        "How old a producer's timestamp may be on arrival; only with CreateTime.",
    ),
    TopicConfig(
        name="message.timestamp.type",
        type=ConfigType.STRING,
        default="CreateTime",
        documentation="CreateTime keeps the producer's timestamps; LogAppendTime sets the time of arrival.",
        check=one_of("CreateTime", "LogAppendTime"),
    ),
    TopicConfig(
        name="min.cleanable.dirty.ratio",
        type=ConfigType.DOUBLE,
        default="0.5",
        documentation="Agents compact a partition once new bytes make up more than this share of it. "
        "`lacuna compact` compacts all records that are old enough.",
        check=ratio,
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        0,
        "Records younger than this are not compacted, so that readers have time to see each of them.",
    ),
    _int(
        "min.insync.replicas",
        1,
        1,
        "No effect: a record is in the object store before it is acknowledged, so the loss of an agent "
        "loses no record.",
    ),
    TopicConfig(
        name=MIRROR_SOURCE,
        type=ConfigType.STRING,
        default="",
        documentation="The topic of another cluster that this one mirrors, as CLUSTER/TOPIC-ID. `lacuna import` sets "
        "it, and producers are refused until `lacuna import promote` removes it.",
        check=mirrored_topic,
    ),
    _boolean("preallocate", _NO_FILES),
    _long("remote.copy.lag.bytes", -1, -1, "No effect: there is no tiered storage."),
    _long("remote.copy.lag.ms", 0, -1, "No effect: there is no tiered storage."),
    _boolean("remote.log.copy.disable", "No effect: there is no tiered storage."),
    _boolean("remote.log.delete.on.disable", "No effect: there is no tiered storage."),
    _boolean(
        "remote.storage.enable",
        "Must be false: all records are in the object store from the start.",
        _not_tiered,
    ),
    _long(
        "retention.bytes",
        -1,
        -LONG_MAX,
        "A partition larger than this loses its oldest records; a negative value, such as -1, means no limit.",
    ),
    _long("retention.ms", 604_800_000, -1, "Records older than this are deleted; -1 keeps them."),
    _int("segment.bytes", 1 << 30, _SMALLEST_SEGMENT, _NO_FILES),
    _int("segment.index.bytes", 10_485_760, 4, _NO_FILES),
    _long("segment.jitter.ms", 0, 0, _NO_FILES),
    _long("segment.ms", 604_800_000, 1, _NO_FILES),
    _boolean(
        "unclean.leader.election.enable",
        "No effect: there are no leaders to elect, and nothing acknowledged is ever lost.",
    ),
)

#: name -> config, sorted by name.
TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {config.name: config for config in _CONFIGS}

SET, DELETE, APPEND, SUBTRACT = range(4)  # IncrementalAlterConfigs


def _find(name: str) -> TopicConfig:
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise InvalidConfig(f"Unknown topic config name: {shorten(name)}")
    return config


def check_config(name: str, value: str) -> str:
    """Return the value as stored. Raises InvalidConfig with Kafka's message if it is not allowed."""
    config = _find(name)
    try:
        checked = config.check(value)
    except ValueError as error:
        shown = shorten(value)
        raise InvalidConfig(f"Invalid value {shown} for configuration {name}: {error}") from None
    if len(checked) > _LONGEST_VALUE:
        raise InvalidConfig(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{_LONGEST_VALUE} bytes."
        )
    return checked


def check_all(configs: Mapping[str, str]) -> dict[str, str]:
    """Check the configs of a new topic, and return them as stored. Raises InvalidConfig."""
    checked = {name: check_config(name, configs[name]) for name in sorted(configs)}
    check_together(checked)
    return checked


def check_together(configs: Mapping[str, str]) -> None:
    """Raise InvalidConfig if values that are allowed individually contradict each other."""
    least = int(effective(configs, "min.compaction.lag.ms"))
    most = int(effective(configs, "max.compaction.lag.ms"))
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )


def effective(configs: Mapping[str, str], name: str) -> str:
    """Return the configured value or, if there is none, the default. Raises KeyError for an unknown name."""
    return configs.get(name, TOPIC_CONFIGS[name].default)


def stored_compression(configs: Mapping[str, str]) -> tuple[str, int | None] | None:
    """Return Kafka's name for the codec of stored batches, and its level, or None for the default level. Return None if
    batches keep their producer's codec.
    """
    codec = effective(configs, "compression.type")
    if codec == "producer":
        return None
    name = f"compression.{codec}.level"
    if name not in TOPIC_CONFIGS or effective(configs, name) == TOPIC_CONFIGS[name].default:
        return codec, None
    return codec, int(effective(configs, name))


def is_deleted_by_retention(configs: Mapping[str, str]) -> bool:
    """Whether cleanup.policy includes "delete", so that retention.ms and retention.bytes apply."""
    return "delete" in items_of(effective(configs, "cleanup.policy"))


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether cleanup.policy includes "compact", so that newer records supersede older ones with the same key."""
    return "compact" in items_of(effective(configs, "cleanup.policy"))


def alter(configs: Mapping[str, str], name: str, operation: int, value: str) -> dict[str, str]:
    """Return the configs after one change, with `operation` as in IncrementalAlterConfigs. Raises InvalidConfig.

    After the last change, call `check_together` to detect contradictions.
    """
    changed = dict(configs)
    if operation == SET:
        changed[name] = check_config(name, value)
    elif operation == DELETE:
        changed.pop(name, None)
    elif operation in (APPEND, SUBTRACT):
        changed[name] = _altered_list(configs, name, operation, value)
    else:
        raise InvalidConfig(
            f"{shorten(name)}: operation {operation} is not one of 0 (SET) to 3 (SUBTRACT)."
        )
    return changed


def _altered_list(configs: Mapping[str, str], name: str, operation: int, value: str) -> str:
    if _find(name).type is not ConfigType.LIST:
        verb = "APPEND" if operation == APPEND else "SUBTRACT"
        raise InvalidConfig(f"Can't {verb} to key {name} because its type is not LIST. SET it.")
    items = dict.fromkeys(items_of(effective(configs, name)))
    given = dict.fromkeys(items_of(value))
    if operation == APPEND:
        items |= given
    else:
        items = {item: None for item in items if item not in given}
    return check_config(name, ",".join(items))
