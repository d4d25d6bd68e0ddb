"""Topic configs: the ones whose promise is kept, with types, defaults and checks.

A config that is not honoured is refused and never stored, so nobody believes in a promise that
nobody keeps. segment.bytes promises nothing to a client; it is taken because Kafka Streams sets it on
every repartition topic. Both the control plane (CreateTopics, AlterConfigs) and the agents
(DescribeConfigs) read this table.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ConfigType(IntEnum):
    """The numbers of DescribeConfigs v3+ (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class InvalidConfig(ValueError):
    """A config that cannot be set so; the message is for the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One config: `check` raises InvalidConfig for a value that cannot be honoured."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    check: Callable[[str], None]


_LONGEST_SHOWN: Final = 100
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")


def shorten(text: str) -> str:
    """What a peer sent, short enough to be told back: an answer has no room for 32 KiB of it."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _integer(name: str, lowest: int, highest: int) -> Callable[[str], None]:
    def check(value: str) -> None:
        # int() raises for thousands of digits, which would end the control plane.
        if not _WHOLE_NUMBER.fullmatch(value):
            shown = shorten(value)
            raise InvalidConfig(f"{name}: {shown!r} is not a whole number of at most 20 digits.")
        if not lowest <= int(value) <= highest:
            raise InvalidConfig(f"{name}: {value} is not between {lowest} and {highest}.")

    return check


def _one_of(name: str, *allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in allowed:
            choices = " or ".join(allowed)
            raise InvalidConfig(
                f"{name}: {shorten(value)!r} has no effect here; set {choices}, or leave it out."
            )

    return check


_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_SMALLEST_SEGMENT: Final = 1 << 20  # Kafka 4's, KIP-1030

_CONFIGS: Final = (
    TopicConfig(
        name="cleanup.policy",
        type=ConfigType.LIST,
        default="delete",
        documentation="delete: retention deletes old records. compact: the last record of each key stays, "
        "retention alone deletes nothing, every record needs a key; nothing older is removed yet.",
        check=_one_of("cleanup.policy", "delete", "compact", "compact,delete", "delete,compact"),
    ),
    TopicConfig(
        name="compression.type",
        type=ConfigType.STRING,
        default="producer",
        documentation="Batches keep the codec that their producer chose.",
        check=_one_of("compression.type", "producer"),
    ),
    TopicConfig(
        name="max.message.bytes",
        type=ConfigType.INT,
        default="1048588",
        documentation="The largest record batch that is accepted, in bytes, as it is compressed.",
        check=_integer("max.message.bytes", 0, _INT_MAX),
    ),
    TopicConfig(
        name="message.timestamp.after.max.ms",
        type=ConfigType.LONG,
        default="3600000",
        documentation="How far ahead of the time of arrival a producer's timestamp may be; CreateTime only.",
        check=_integer("message.timestamp.after.max.ms", 0, _LONG_MAX),
    ),
    TopicConfig(
        name="message.timestamp.before.max.ms",
        type=ConfigType.LONG,
        default=str(_LONG_MAX),
        documentation="How old a producer's timestamp may be at its arrival; CreateTime only.",
        check=_integer("message.timestamp.before.max.ms", 0, _LONG_MAX),
    ),
    TopicConfig(
        name="message.timestamp.type",
        type=ConfigType.STRING,
        default="CreateTime",
        documentation="CreateTime keeps the producer's timestamps; LogAppendTime sets the time of arrival.",
        check=_one_of("message.timestamp.type", "CreateTime", "LogAppendTime"),
    ),
    TopicConfig(
        name="min.insync.replicas",
        type=ConfigType.INT,
        default="1",
        documentation="Every record is in the bucket before it is acknowledged; there are no replicas.",
        check=_one_of("min.insync.replicas", "1"),
    ),
    TopicConfig(
        name="retention.bytes",
        type=ConfigType.LONG,
        default="-1",
        documentation="A partition larger than this loses its oldest records; -1 is no limit.",
        check=_integer("retention.bytes", -1, _LONG_MAX),
    ),
    TopicConfig(
        name="retention.ms",
        type=ConfigType.LONG,
        default="604800000",
        documentation="Records older than this are deleted; -1 keeps them.",
        check=_integer("retention.ms", -1, _LONG_MAX),
    ),
    TopicConfig(
        name="segment.bytes",
        type=ConfigType.INT,
        default="1073741824",
        documentation="The size of a broker's files. There are none: any size is as good.",
        check=_integer("segment.bytes", _SMALLEST_SEGMENT, _INT_MAX),
    ),
    TopicConfig(
        name="unclean.leader.election.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        documentation="There are no leaders to elect and nothing acknowledged is ever lost.",
        check=_one_of("unclean.leader.election.enable", "false"),
    ),
)

#: name -> config, in the order of names.
TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {config.name: config for config in _CONFIGS}

SET, DELETE, APPEND, SUBTRACT = range(4)  # IncrementalAlterConfigs


def _find(name: str) -> TopicConfig:
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise InvalidConfig(
            f"{shorten(name)} has no effect here and is not stored; leave it out. "
            f"Known: {', '.join(TOPIC_CONFIGS)}."
        )
    return config


def check_config(name: str, value: str) -> None:
    """Raises InvalidConfig, with a sentence for the client, unless the value is honoured."""
    _find(name).check(value)


def effective(configs: Mapping[str, str], name: str) -> str:
    """The value that counts: what was set, else the default.

    Raises KeyError for an unknown name.
    """
    return configs.get(name, TOPIC_CONFIGS[name].default)


def is_deleted_by_retention(configs: Mapping[str, str]) -> bool:
    """Whether retention.ms and retention.bytes apply: not where the policy is compaction alone."""
    return "delete" in effective(configs, "cleanup.policy").split(",")


def alter(configs: Mapping[str, str], name: str, operation: int, value: str) -> dict[str, str]:
    """The set after one change as in IncrementalAlterConfigs; raises InvalidConfig."""
    changed = dict(configs)
    if operation == SET:
        check_config(name, value)
        changed[name] = value
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
        verb = "append to" if operation == APPEND else "subtract from"
        raise InvalidConfig(f"{name} is not a list; one cannot {verb} it. SET it.")
    items = [item for item in effective(configs, name).split(",") if item]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    altered = ",".join(items)
    check_config(name, altered)
    return altered
