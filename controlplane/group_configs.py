"""Configs of single groups: those of consumer groups, with Kafka 4.1's types, defaults and bounds (docs/adr/0005).

Kafka has others, of share and of streams groups. Those do not exist here, so their configs are unknown names:
nothing is stored that nobody keeps. Both the control plane (AlterConfigs) and the agents (DescribeConfigs) read this
table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.config_values import ConfigType, shorten, whole
from controlplane.topic_configs import APPEND, DELETE, SET, SUBTRACT, InvalidConfig

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"

_check_type = whole(ConfigType.INT, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One config, in milliseconds, with its bounds; `lowest_name` is the broker's setting of a bound in Kafka."""

    name: str
    default: int
    lowest: int
    lowest_name: str
    highest: int
    highest_name: str
    documentation: str

    def check(self, value: str) -> str:
        """The value as it is stored. Raises InvalidConfig, with Kafka's sentence, where it may not be."""
        try:
            checked = _check_type(value)
        except ValueError as error:
            shown = shorten(value)
            raise InvalidConfig(
                f"Invalid value {shown} for configuration {self.name}: {error}"
            ) from None
        if int(checked) < self.lowest:
            raise InvalidConfig(f"{self.name} must be greater than or equal to {self.lowest_name}")
        if int(checked) > self.highest:
            raise InvalidConfig(f"{self.name} must be less than or equal to {self.highest_name}")
        return checked


_CONFIGS: Final = (
    GroupConfig(
        name=HEARTBEAT_INTERVAL,
        default=5_000,
        lowest=5_000,
        lowest_name="group.consumer.min.heartbeat.interval.ms",
        highest=15_000,
        highest_name="group.consumer.max.heartbeat.interval.ms",
        documentation="How often members of a consumer group are to say that they live; they learn it with "
        "their next heartbeat.",
    ),
    GroupConfig(
        name=SESSION_TIMEOUT,
        default=45_000,
        lowest=45_000,
        lowest_name="group.consumer.min.session.timeout.ms",
        highest=60_000,
        highest_name="group.consumer.max.session.timeout.ms",
        documentation="A member of a consumer group that has not said so for this long is out; counts "
        "from its next heartbeat on.",
    ),
)

#: name -> config, in the order of names.
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {config.name: config for config in _CONFIGS}


def alter(configs: Mapping[str, str], name: str, operation: int, value: str) -> dict[str, str]:
    """The set after one change as in IncrementalAlterConfigs; raises InvalidConfig."""
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
