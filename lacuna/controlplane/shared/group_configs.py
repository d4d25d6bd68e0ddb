"""Configs of consumer, share and streams groups, with the types, defaults and bounds of Kafka 4.4 (docs/adr/0005).

The control plane (AlterConfigs) and the agents (DescribeConfigs) share this table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lacuna.controlplane.shared.config_values import (
    Check,
    ConfigType,
    boolean,
    one_of,
    shorten,
    whole,
)
from lacuna.controlplane.shared.topic_configs import APPEND, DELETE, SET, SUBTRACT, InvalidConfig

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
RECORD_LOCK_DURATION: Final = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT: Final = "share.delivery.count.limit"
MAX_RECORD_LOCKS: Final = "share.partition.max.record.locks"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
SHARE_ASSIGNMENT_INTERVAL: Final = "share.assignment.interval.ms"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
RENEW_ENABLE: Final = "share.renew.acknowledge.enable"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPIES: Final = "errors.deadletterqueue.copy.record.enable"
STREAMS_ACCEPTABLE_LAG: Final = "streams.acceptable.recovery.lag"
STREAMS_ASSIGNMENT_INTERVAL: Final = "streams.assignment.interval.ms"
STREAMS_HEARTBEAT_INTERVAL: Final = "streams.heartbeat.interval.ms"
STREAMS_INITIAL_DELAY: Final = "streams.initial.rebalance.delay.ms"
STREAMS_RACK_TAGS: Final = "streams.rack.aware.assignment.tags"
STREAMS_SESSION_TIMEOUT: Final = "streams.session.timeout.ms"
STREAMS_STANDBYS: Final = "streams.num.standby.replicas"
STREAMS_TASK_OFFSET_INTERVAL: Final = "streams.task.offset.interval.ms"

BY_DURATION: Final = "by_duration:"
#: An ISO 8601 duration as Java reads it: days, hours, minutes and seconds.
_DURATION: Final = re.compile(
    r"P(?:(\d{1,6})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?",
    re.ASCII,
)


class Bounds(NamedTuple):
    """The lowest and highest allowed values of a config. In Kafka, these bounds are themselves broker configs."""

    lowest: int | None
    highest: int | None

    def names_of(self, name: str) -> list[tuple[str, int]]:
        """Return the broker configs for a config's bounds, with their values."""
        kind, _, rest = name.partition(".")
        rest = rest.removeprefix("num.")
        named = (
            (f"group.{kind}.min.{rest}", self.lowest),
            (f"group.{kind}.max.{rest}", self.highest),
        )
        return [(bound, value) for bound, value in named if value is not None]

    def check(self, name: str, number: int) -> None:
        """Raise InvalidConfig, with Kafka's message, if a number is out of bounds."""
        is_below = self.lowest is not None and number < self.lowest
        is_above = self.highest is not None and number > self.highest
        if not is_below and not is_above:
            return
        if self.highest is None:
            raise InvalidConfig(f"{name} must be greater than or equal to {self.lowest}")
        if self.lowest is None:
            raise InvalidConfig(f"{name} must be less than or equal to {self.highest}")
        raise InvalidConfig(
            f"{name} must be in the range {self.lowest} to {self.highest} inclusive."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One config. `default` is in the form used for stored values."""

    name: str
    default: str
    documentation: str
    type: ConfigType
    check_type: Check
    bounds: Bounds | None = None
    is_on_brokers: bool = False

    @property
    def broker_name(self) -> str:
        """The name of the broker config that sets the default or, if there is none, the config's own name."""
        return f"group.{self.name}" if self.is_on_brokers else self.name

    def check(self, value: str) -> str:
        """Return the value as stored. Raises InvalidConfig with Kafka's message if it is not allowed."""
        try:
            checked = self.check_type(value)
        except InvalidConfig:
            raise
        except ValueError as error:
            shown = shorten(value)
            raise InvalidConfig(
                f"Invalid value {shown} for configuration {self.name}: {error}"
            ) from None
        if self.bounds is not None:
            self.bounds.check(self.name, int(checked))
        return checked


def _number(
    name: str, default: int, lowest: int, highest: int, documentation: str, *, least: int = 1
) -> GroupConfig:
    """Return a numeric config whose bounds are set by broker configs named after it, and whose minimum is never below
    `least`.
    """
    return GroupConfig(
        name=name,
        default=str(default),
        documentation=documentation,
        type=ConfigType.INT,
        check_type=whole(ConfigType.INT, least),
        bounds=Bounds(lowest, highest),
        is_on_brokers=True,
    )


def duration_ms(value: str) -> int | None:
    """Return the milliseconds in a value of the form by_duration:PnDTnHnMn.nS, or None if it has another form."""
    found = _DURATION.fullmatch(value.removeprefix(BY_DURATION).upper())
    if not value.startswith(BY_DURATION) or found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds, fraction = (found[group] or "0" for group in range(1, 6))
    whole_seconds = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole_seconds * 1000 + int(fraction.ljust(3, "0")[:3])


def _reset(value: str) -> str:
    text = value.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if duration_ms(text) is None:
        raise ValueError(
            "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
    return text


def _dead_letter_topic(value: str) -> str:
    text = value.strip()
    if text.startswith("__"):
        raise InvalidConfig(f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")
    return text


_AT_ONCE: Final = "No effect: members receive their new assignment with the next heartbeat."


def _tags(value: str) -> str:
    tags = [each.strip() for each in value.split(",")] if value.strip() else []
    if len(set(tags)) < len(tags) or not all(tags):
        raise ValueError("the value must be a list of distinct tags")
    return ",".join(tags)


_CONFIGS: Final = (
    _number(ASSIGNMENT_INTERVAL, 1_000, 0, 15_000, _AT_ONCE, least=0),
    GroupConfig(
        name="consumer.assignor.offload.enable",
        default="true",
        documentation="No effect: assignors run in the control plane.",
        type=ConfigType.BOOLEAN,
        check_type=boolean,
        is_on_brokers=True,
    ),
    _number(
        HEARTBEAT_INTERVAL,
        5_000,
        5_000,
        15_000,
        "How often members of a consumer group send a heartbeat; a new value reaches them with the next one.",
    ),
    _number(
        SESSION_TIMEOUT,
        45_000,
        45_000,
        60_000,
        "A member of a consumer group that sends no heartbeat for this long is removed; a new value applies from its "
        "next heartbeat.",
    ),
    GroupConfig(
        name=DEAD_LETTER_COPIES,
        default="false",
        documentation="Whether records in the dead-letter queue contain the keys and values of "
        "the records that the share group gave up on, or only headers that identify them.",
        type=ConfigType.BOOLEAN,
        check_type=boolean,
    ),
    GroupConfig(
        name=DEAD_LETTER_TOPIC,
        default="",
        documentation="The dead-letter queue of a share group: the topic for records that members have rejected or "
        "that have been delivered too often. The topic's errors.deadletterqueue.group.enable must be true. If "
        "empty, the group has no dead-letter queue.",
        type=ConfigType.STRING,
        check_type=_dead_letter_topic,
    ),
    _number(SHARE_ASSIGNMENT_INTERVAL, 1_000, 0, 15_000, _AT_ONCE, least=0),
    GroupConfig(
        name=AUTO_OFFSET_RESET,
        default="latest",
        documentation="Where a share group begins in a partition: earliest, latest, or "
        "by_duration:PnDTnHnMn.nS, which means that long before its first fetch.",
        type=ConfigType.STRING,
        check_type=_reset,
    ),
    _number(
        DELIVERY_COUNT_LIMIT,
        5,
        2,
        10,
        "How many times a record may be delivered to a share group. A record that has not been accepted by then is "
        "archived.",
        least=2,
    ),
    _number(
        SHARE_HEARTBEAT_INTERVAL,
        5_000,
        5_000,
        15_000,
        "How often members of a share group send a heartbeat; a new value reaches them with the next one.",
    ),
    GroupConfig(
        name=ISOLATION_LEVEL,
        default="read_uncommitted",
        documentation="With read_committed, a share group gets the records of a transaction once the transaction is "
        "committed. Aborted records are never delivered once the transaction has ended.",
        type=ConfigType.STRING,
        check_type=one_of("read_committed", "read_uncommitted"),
    ),
    _number(
        MAX_RECORD_LOCKS,
        2_000,
        100,
        4_000,
        "How many records of a partition a share group may hold at once, counted from the first "
        "unfinished record.",
        least=100,
    ),
    _number(
        RECORD_LOCK_DURATION,
        30_000,
        15_000,
        60_000,
        "How long a member of a share group may hold a record before it is delivered again; a new value applies to "
        "records delivered from then on.",
        least=1_000,
    ),
    GroupConfig(
        name=RENEW_ENABLE,
        default="true",
        documentation="Whether members of a share group may hold records longer by renewing their locks.",
        type=ConfigType.BOOLEAN,
        check_type=boolean,
    ),
    _number(
        SHARE_SESSION_TIMEOUT,
        45_000,
        45_000,
        60_000,
        "A member of a share group that sends no heartbeat for this long is removed; a new value applies from its "
        "next heartbeat.",
    ),
    GroupConfig(
        name=STREAMS_ACCEPTABLE_LAG,
        default="10000",
        documentation="How many records a copy of a task's state may lag behind and still count as caught up; a new "
        "value reaches members of a streams group with their next heartbeat.",
        type=ConfigType.LONG,
        check_type=whole(ConfigType.LONG, 0),
        is_on_brokers=True,
    ),
    _number(
        STREAMS_ASSIGNMENT_INTERVAL,
        1_000,
        0,
        15_000,
        "The minimum time that a streams group waits between two assignments.",
        least=0,
    ),
    GroupConfig(
        name="streams.assignor.offload.enable",
        default="true",
        documentation="No effect: assignors run in the control plane.",
        type=ConfigType.BOOLEAN,
        check_type=boolean,
        is_on_brokers=True,
    ),
    _number(
        STREAMS_HEARTBEAT_INTERVAL,
        5_000,
        5_000,
        15_000,
        "How often members of a streams group send a heartbeat; a new value reaches them with the next one.",
    ),
    GroupConfig(
        name=STREAMS_INITIAL_DELAY,
        default="3000",
        documentation="How long an empty streams group waits for more members, once the first one has joined, before "
        "it assigns tasks.",
        type=ConfigType.INT,
        check_type=whole(ConfigType.INT, 0),
        is_on_brokers=True,
    ),
    GroupConfig(
        name=STREAMS_STANDBYS,
        default="0",
        documentation="The number of standby tasks in a streams group for each stateful task.",
        type=ConfigType.INT,
        check_type=whole(ConfigType.INT, 0),
        bounds=Bounds(None, 2),
        is_on_brokers=True,
    ),
    GroupConfig(
        name="streams.num.warmup.replicas",
        default="2",
        documentation="The maximum number of warm-up tasks in a streams group. As in Kafka 4.4, the assignor creates "
        "none.",
        type=ConfigType.INT,
        check_type=whole(ConfigType.INT, 0),
        bounds=Bounds(None, 20),
        is_on_brokers=True,
    ),
    GroupConfig(
        name=STREAMS_RACK_TAGS,
        default="",
        documentation="Client tags that members of a streams group must have. As in Kafka 4.4, the assignor does not "
        "use them.",
        type=ConfigType.LIST,
        check_type=_tags,
        is_on_brokers=True,
    ),
    _number(
        STREAMS_SESSION_TIMEOUT,
        45_000,
        45_000,
        60_000,
        "A member of a streams group that sends no heartbeat for this long is removed; a new value applies from its "
        "next heartbeat.",
    ),
    GroupConfig(
        name=STREAMS_TASK_OFFSET_INTERVAL,
        default="60000",
        documentation="How often members of a streams group report how far their tasks have read the changelogs.",
        type=ConfigType.INT,
        check_type=whole(ConfigType.INT, 1),
        bounds=Bounds(15_000, None),
        is_on_brokers=True,
    ),
)

#: name -> config, sorted by name.
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {config.name: config for config in _CONFIGS}


def alter(configs: Mapping[str, str], name: str, operation: int, value: str) -> dict[str, str]:
    """Return the configs after one change, with `operation` as in IncrementalAlterConfigs. Raises InvalidConfig."""
    changed = dict(configs)
    if operation == DELETE:
        changed.pop(name, None)
        return changed
    config = GROUP_CONFIGS.get(name)
    if config is None:
        raise InvalidConfig(f"Unknown group config name: {shorten(name)}")
    if operation in (APPEND, SUBTRACT):
        verb = "APPEND" if operation == APPEND else "SUBTRACT"
        raise InvalidConfig(f"Can't {verb} to key {name} because its type is not LIST.")
    if operation != SET:
        raise InvalidConfig(f"{name}: operation {operation} is not one of 0 (SET) to 3 (SUBTRACT).")
    changed[name] = config.check(value)
    return changed
