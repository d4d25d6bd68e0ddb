"""What an operator may choose about groups; the names are Kafka's, in snake case."""

from dataclasses import dataclass

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Bounds and delays. All times are milliseconds, all sizes members or characters where they are not bytes."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 30 * _MINUTE_MS
    group_max_size: int = 10_000
    # What members say of themselves, bytes: those of a classic group in JoinGroup, all of a consumer group (KIP-848)
    # in their subscriptions. Kafka keeps a generation in one record, and so has max.message.bytes for all members of a
    # classic group, which 500 that name 200 topics each are beyond.
    member_metadata_max_bytes: int = 1 << 20
    group_metadata_max_bytes: int = 64 << 20
    # Of consumer groups (KIP-848): the members do not choose.
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    # Kafka waits 3 s for company; groups here are small and often in tests, so nobody waits.
    group_initial_rebalance_delay_ms: int = 0
    # A new member has no id yet, so it cannot send heartbeats while it waits for the others.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
