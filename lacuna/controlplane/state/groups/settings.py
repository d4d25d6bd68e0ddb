"""The settings of groups, with Kafka's keys."""

from dataclasses import dataclass
from typing import Final

from lacuna.base.setting import LARGEST_INT, MEBIBYTE, SettingsError, check_settings, setting
from lacuna.controlplane.shared.group_configs import (
    GROUP_CONFIGS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
)

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Bounds and delays of groups. Names end with the unit; `group_max_size` counts members. Raises SettingsError."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session.timeout.ms that a member of a classic group may request.",
        most=LARGEST_INT,
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        30 * _MINUTE_MS,
        "The longest session.timeout.ms that a member of a classic group may request.",
        most=LARGEST_INT,
    )
    group_max_size: int = setting(
        "group.max.size",
        10_000,
        "The maximum number of members in one group.",
        least=1,
        most=LARGEST_INT,
    )
    # Kafka waits 3 s for more members. Lacuna does not wait, since groups are small and often used in tests.
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        0,
        "How long a new classic group waits for more members before its first rebalance.",
        most=LARGEST_INT,
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4096,
        "The maximum number of bytes of metadata that a consumer may commit with an offset.",
        most=LARGEST_INT,
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long the offsets of a group without members are kept.",
        least=1,
        most=LARGEST_INT,
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        10 * _MINUTE_MS,
        "How often the control plane looks for offsets to delete.",
        least=1,
    )

    groups_max_bytes: int = setting(
        "groups.max.bytes",
        256 * MEBIBYTE,
        "The maximum number of bytes that all groups together may store in the control plane: metadata, "
        "assignments, subscriptions and offsets.",
        least=MEBIBYTE,
    )
    principal_max_percent: int = setting(
        "principal.max.percent",
        50,
        "The percentage of groups.max.bytes, of the space for transactional ids, and of the cluster's partitions that "
        "a single principal may use. If the anonymous principal is the only one, it may use all of them.",
        least=1,
        most=100,
    )

    # Bounds the members' metadata, and separately their assignments: in JoinGroup and SyncGroup for a classic group, in
    # subscriptions for a consumer group (KIP-848). Kafka keeps a classic generation in one record, so its bound is
    # max.message.bytes, which is exceeded by 500 members that name 200 topics each.
    member_metadata_max_bytes: int = 1 << 20
    group_metadata_max_bytes: int = 64 << 20
    # For consumer groups (KIP-848), whose members do not choose these. A group config overrides them.
    consumer_session_timeout_ms: int = int(GROUP_CONFIGS[SESSION_TIMEOUT].default)
    consumer_heartbeat_interval_ms: int = int(GROUP_CONFIGS[HEARTBEAT_INTERVAL].default)
    # A new member has no id yet, so it cannot send heartbeats while it waits for the others.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS

    def share_of(self, most: int) -> int:
        """Return how much of a bound a single principal may use."""
        return most * self.principal_max_percent // 100

    def __post_init__(self) -> None:
        check_settings(self)
        least, most = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if least > most:
            raise SettingsError(
                f"group.min.session.timeout.ms is {least} and group.max.session.timeout.ms is "
                f"{most}, so no member could join: choose a minimum that does not exceed the "
                "maximum"
            )
