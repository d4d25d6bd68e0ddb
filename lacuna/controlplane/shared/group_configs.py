"""Group configs: those of consumer groups, with Kafka 4.1's types, defaults and bounds (docs/adr/0005).

Kafka also has configs of share and streams groups. Such groups do not exist here, so their configs are rejected as
unknown rather than stored without effect. Both the control plane (AlterConfigs) and the agents (DescribeConfigs) use
this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.shared.config_values import ConfigType, shorten, whole
from lacuna.controlplane.shared.topic_configs import APPEND, DELETE, SET, SUBTRACT, InvalidConfig

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"

_check_type = whole(ConfigType.INT, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One config, in milliseconds, with its bounds. The `_name` fields are Kafka's broker configs for the bounds."""

    name: str
    default: int
    lowest: int
    lowest_name: str
    highest: int
    highest_name: str
    documentation: str

    def check(self, value: str) -> str:
        """Return the value as stored. Raises InvalidConfig with Kafka's message if it is not allowed."""
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
        documentation="How often members of a consumer group send a heartbeat; they learn a new value with "
        "their next heartbeat.",
    ),
    GroupConfig(
        name=SESSION_TIMEOUT,
        default=45_000,
        lowest=45_000,
        lowest_name="group.consumer.min.session.timeout.ms",
        highest=60_000,
        highest_name="group.consumer.max.session.timeout.ms",
        documentation="A member of a consumer group that sends no heartbeat for this long is removed; a new "
        "value holds from its next heartbeat on.",
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
