"""Ends overdue sessions, joins and syncs of groups, and expires committed offsets."""

from collections.abc import Callable, Container
from heapq import nsmallest
from itertools import islice

from lacuna.controlplane.shared.partitions import PartitionKey, named
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.offsets import StoredOffset
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.groups.streams import StreamsGroup
from lacuna.controlplane.state.settings import GROUPS_PER_TICK, MAX_PER_TICK, OFFSETS_PER_TICK
from lacuna.controlplane.v1.group_records_pb2 import GroupDeleted, GroupRecord, OffsetsExpired
from lacuna.controlplane.verbs.groups.consumer.converting import CONSUMER_PROTOCOL_TYPE
from lacuna.controlplane.verbs.groups.consumer.operators import end_overdue_consumers, is_subscribed
from lacuna.controlplane.verbs.groups.deleting import is_source, subscribed_topics
from lacuna.controlplane.verbs.groups.dropping import drop_if_nothing
from lacuna.controlplane.verbs.groups.rebalance import (
    complete_join_if_all,
    end_joining,
    end_syncing,
    rebalance_or_complete,
    remove_member,
)
from lacuna.controlplane.verbs.groups.share_members import end_overdue_share_members
from lacuna.controlplane.verbs.groups.share_records import end_locks
from lacuna.controlplane.verbs.groups.streams_members import end_overdue_streams_members
from lacuna.controlplane.verbs.turn import Turn


def tick_groups(turn: Turn) -> None:
    """Handle all deadlines that have passed, and expire offsets if a check is due."""
    live = turn.groups.live
    for group_id in nsmallest(MAX_PER_TICK, live.asleep):
        turn.groups.open(group_id, turn.now_ms)
    now_ms, moved_ms = turn.now_ms, live.moved_ms
    are_due = (each for each in live.groups.values() if each.is_due(now_ms, moved_ms))
    for group in list(islice(are_due, GROUPS_PER_TICK)):
        group.settle(moved_ms)
        _end_in_group(turn, group)
        group.refresh_due()
        drop_if_nothing(turn, group)
        live.weigh(group.group_id)
    end_overdue_consumers(turn)
    end_overdue_share_members(turn)
    end_overdue_streams_members(turn)
    end_locks(turn)
    _check_expiry(turn)


def _check_expiry(turn: Turn) -> None:
    """Start a search for expired offsets if one is due, and check some groups.

    A tick checks about OFFSETS_PER_TICK offsets but at least one group, and expires at most MAX_PER_TICK offsets of a
    group. The next tick continues.
    """
    if turn.context.is_time_doubtful:
        return
    live = turn.groups.live
    check_ms = live.next_expiry_check_ms
    if check_ms is None or check_ms <= turn.now_ms:
        interval_ms = turn.groups.settings.offsets_retention_check_interval_ms
        live.next_expiry_check_ms = turn.now_ms + interval_ms
        if check_ms is not None and not live.expiring:
            live.expiring = sorted(turn.groups.group_ids(), reverse=True)
    changed = {
        step.group_id
        for each in turn.records
        for step in (each.group.consumer_group_step, each.group.streams_group_step)
    }
    left = OFFSETS_PER_TICK
    while live.expiring and left > 0:
        group_id = live.expiring.pop()
        left -= 10 + len(turn.groups.offsets.committed.get(group_id, ()))
        if _expire_in(turn, group_id, changed):
            live.expiring.append(group_id)
            return


def _expire_in(turn: Turn, group_id: str, changed: Container[str]) -> bool:
    """Expire offsets of a group, unless this turn has changed it. Return whether more may have expired."""
    consumer = turn.groups.consumers.get(group_id) or turn.groups.streams.get(group_id)
    if consumer is None:
        return turn.groups.exists(group_id) and _expire_offsets(
            turn, turn.groups.open(group_id, turn.now_ms)
        )
    return group_id not in changed and _expire_offsets_of_consumers(turn, consumer)


def _end_in_group(turn: Turn, group: LiveGroup) -> None:
    for member_id in [
        member_id
        for member_id, member in group.members.items()
        if member.session_deadline_ms is not None and member.session_deadline_ms <= turn.now_ms
    ]:
        _end_session(turn, group, member_id)
    for member_id, deadline_ms in list(group.pending_joins.items()):
        if deadline_ms <= turn.now_ms:
            group.remove(member_id)
            complete_join_if_all(turn, group)
    if group.join_deadline_ms is not None and group.join_deadline_ms <= turn.now_ms:
        end_joining(turn, group)
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= turn.now_ms:
        end_syncing(turn, group)


def _end_session(turn: Turn, group: LiveGroup, member_id: str) -> None:
    member = group.members[member_id]
    deadline_ms = member.session_deadline_ms
    if deadline_ms is None or deadline_ms > turn.now_ms:
        return  # the end of another session has just answered this member
    if member.awaits_answer:
        member.session_deadline_ms = None
        return
    remove_member(turn, group, member_id)
    rebalance_or_complete(turn, group)


def _expire_offsets(turn: Turn, group: LiveGroup) -> bool:
    """Expire a classic group's offsets that have been unused for offsets.retention.minutes.

    In an empty group, the time runs from when it became empty or, if it never had members, from the commit. Return
    whether more may have expired.
    """
    if group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return _expire_unsubscribed(turn, group)
    if group.state is not GroupState.EMPTY or group.pending_joins:
        return False
    offsets = turn.groups.offsets
    generation = turn.groups.generations.get(group.group_id)
    if generation is not None and generation.members:
        return False  # it became empty in this turn
    expired = _expire(
        turn,
        group.group_id,
        lambda _, stored: _is_old(turn, stored, (generation or stored).written_at_ms),
    )
    is_bare = expired == len(offsets.committed.get(group.group_id, {}))
    if is_bare and group.group_id not in offsets.pending_producers:
        group.transition_to(GroupState.DEAD)
        turn.journal_group(GroupRecord(group_deleted=GroupDeleted(group_id=group.group_id)))
    return expired == MAX_PER_TICK


def _expire_unsubscribed(turn: Turn, group: LiveGroup) -> bool:
    """Expire old offsets of topics that a stable classic group does not read, if it is known which ones it reads."""
    topics = subscribed_topics(group)
    if topics is None:
        return False
    expired = _expire_old(turn, group.group_id, lambda each: turn.topics.name_of(each) in topics)
    return expired == MAX_PER_TICK


def _expire_offsets_of_consumers(turn: Turn, group: ConsumerGroup | StreamsGroup) -> bool:
    """Expire old offsets of topics that no member wants. Their age is measured from the commit."""
    offsets = turn.groups.offsets

    def is_wanted(topic_id: bytes) -> bool:
        if isinstance(group, StreamsGroup):
            return is_source(turn, group, topic_id)
        return is_subscribed(turn, group, topic_id)

    expired = _expire_old(turn, group.group_id, is_wanted)
    is_bare = expired == len(offsets.committed.get(group.group_id, {}))
    if is_bare and not group.members and group.group_id not in offsets.pending_producers:
        turn.journal_group(GroupRecord(group_deleted=GroupDeleted(group_id=group.group_id)))
    return expired == MAX_PER_TICK


def _expire_old(turn: Turn, group_id: str, is_wanted: Callable[[bytes], bool]) -> int:
    """Expire offsets of unwanted topics if their commits are older than the retention time. Return their number."""
    return _expire(
        turn,
        group_id,
        lambda key, stored: _is_old(turn, stored, stored.written_at_ms) and not is_wanted(key[0]),
    )


def _is_old(turn: Turn, stored: StoredOffset, since_ms: int) -> bool:
    """Whether an offset unused since `since_ms` has expired. If it has its own retention, that runs from its commit."""
    if stored.retention_ms is not None:
        return stored.written_at_ms + stored.retention_ms <= turn.now_ms
    return since_ms + turn.groups.settings.offsets_retention_minutes * 60_000 <= turn.now_ms


def _expire(turn: Turn, group_id: str, is_old: Callable[[PartitionKey, StoredOffset], bool]) -> int:
    """Expire up to MAX_PER_TICK offsets that are old and not pending, and return their number."""
    offsets = turn.groups.offsets
    are_old = (
        key
        for key, stored in offsets.committed.get(group_id, {}).items()
        if is_old(key, stored) and not offsets.is_pending(group_id, key)
    )
    expired = [named(key) for key in nsmallest(MAX_PER_TICK, are_old)]
    if expired:
        record = OffsetsExpired(group_id=group_id, partitions=expired)
        turn.journal_group(GroupRecord(offsets_expired=record))
    return len(expired)
