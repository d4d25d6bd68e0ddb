"""Finds the consumer group and member that a request names, and refuses invalid requests (KIP-848, KIP-345).

Streams groups find their members in the same way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Protocol, TypeVar

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.consumer.assignments import Assignment, is_within, joined
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup, Draft
from lacuna.controlplane.state.groups.consumer.live import LiveConsumerGroup
from lacuna.controlplane.state.groups.consumer.member import Member
from lacuna.controlplane.state.groups.consumer.states import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from lacuna.controlplane.state.groups.live import SIZE_OF_NAME
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.groups.streams import Member as StreamsMember
from lacuna.controlplane.state.settings import GROUPS_PER_TICK
from lacuna.controlplane.verbs.groups.consumer.converting import upgrade
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn

G = TypeVar("G")
M = TypeVar("M", Member, StreamsMember)


class Drafted(Protocol[M]):
    @property
    def group_id(self) -> str: ...
    @property
    def members(self) -> Mapping[str, M]: ...
    @property
    def static_members(self) -> Mapping[str, str]: ...
    def put(self, member: M) -> None: ...
    def remove(self, member_id: str) -> None: ...


def find_group(turn: Turn, group_id: str) -> ConsumerGroup:
    """Return the consumer group. Raises Refused if it does not exist or is a classic group."""
    group = turn.groups.consumers.get(group_id)
    if group is None:
        raise no_group(turn, group_id, "consumer")
    return group


def no_group(turn: Turn, group_id: str, kind: str) -> Refused:
    """Return the error for a group that does not exist or is not of this kind."""
    why = f"is not a {kind} group" if turn.groups.exists(group_id) else "not found"
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")


def possibly_overdue(
    turn: Turn, groups: Mapping[str, G], live: Mapping[str, LiveConsumerGroup]
) -> Iterator[tuple[str, G]]:
    """Yield at most GROUPS_PER_TICK groups that may have overdue deadlines. The next tick continues.

    Groups without deadlines, which were restored from the journal, are included.
    """
    moved_ms = turn.groups.live.moved_ms
    found = (
        (group_id, group)
        for group_id, group in list(groups.items())
        if (known := live.get(group_id)) is None or known.is_due(turn.now_ms, moved_ms)
    )
    return islice(found, GROUPS_PER_TICK)


def find_or_make_group(turn: Turn, group_id: str) -> Draft:
    """Return a draft of the group to join: an existing one, a new one, or an upgraded classic group."""
    group = turn.groups.consumers.get(group_id)
    if group is not None:
        return Draft(group_id, group)
    if turn.groups.is_modern(group_id):
        raise no_group(turn, group_id, "consumer")
    classic = turn.groups.find(group_id, turn.now_ms)
    if classic is not None and classic.state is not GroupState.EMPTY:
        return upgrade(turn, classic)
    return Draft(group_id, None)


def check_room(turn: Turn, draft: Draft, member_id: str) -> None:
    """Raise Refused if a new member joins a full group."""
    max_size = turn.groups.settings.group_max_size
    if len(draft.members) >= max_size and member_id not in draft.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def put_within_bounds(turn: Turn, draft: Draft, member: Member) -> None:
    """Add or replace a member. Raises Refused if the group's subscriptions would become too large."""
    before, is_known = draft.metadata_size, member.member_id in draft.members
    draft.put(member)
    largest = turn.groups.settings.group_metadata_max_bytes
    if draft.metadata_size > max(before, largest):
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The subscriptions of a consumer group's members may take at most {largest} bytes in total. "
            "Subscribe to fewer topics, or use SubscribedTopicRegex.",
        )
    more = draft.metadata_size - before + (0 if is_known else SIZE_OF_NAME)
    if not turn.groups.has_room(draft.group_id, more, turn.principal):
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"There is no room left: all groups together may store {turn.groups.settings.groups_max_bytes} bytes"
            " (groups.max.bytes), and one principal's groups may store"
            f" {turn.groups.settings.principal_max_percent}% of that (principal.max.percent). Delete some groups.",
        )


def check_epoch(
    member: Member, member_epoch: int, owned: Assignment | None, *, has_heard: bool
) -> None:
    """Raise Refused if the epoch is not the member's current one.

    The previous epoch is accepted if the member owns only partitions that are still assigned to it, because the
    response with the current epoch may have been lost. A member that may have missed that response may also own the
    partitions that it should give up, and need not declare what it owns.
    """
    current = member.current
    if member_epoch == current.member_epoch:
        return
    known = current.assigned if has_heard else joined(current.assigned, current.revoking)
    is_retry = (
        member_epoch == current.previous_member_epoch
        and member_epoch < current.member_epoch
        and (is_within(owned, known) if owned is not None else not has_heard)
    )
    if not is_retry:
        raise fenced("consumer", member_epoch, current.member_epoch)


def fenced(kind: str, member_epoch: int, known_epoch: int) -> Refused:
    """Return the error for a member of a `kind` group whose epoch is not the one its group knows."""
    size = "greater" if member_epoch > known_epoch else "smaller"
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {size} member epoch ({member_epoch}) than the one known by the group"
        f" coordinator ({known_epoch}). The member must abandon all its partitions and rejoin.",
    )


def has_heard(turn: Turn, draft: Draft, member_id: str) -> bool:
    """Whether a member has certainly received the answer to its last heartbeat."""
    live = turn.groups.live_consumers.get(draft.group_id)
    return live is not None and live.has_heard(member_id, turn.context.session)


def find_member(draft: Drafted[M], member_id: str, instance_id: str) -> M:
    """Return the member with this instance id or, if that is empty, this member id. Raises Refused if there is none."""
    if instance_id:
        return find_static(draft, member_id, instance_id)
    return find_dynamic(draft, member_id)


def find_dynamic(draft: Drafted[M], member_id: str) -> M:
    """Return the member with this id. Raises Refused if there is none."""
    member = draft.members.get(member_id)
    if member is None:
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {draft.group_id}.",
        )
    return member


def find_static(draft: Drafted[M], member_id: str, instance_id: str) -> M:
    """Return a static member. Raises Refused: FENCED_INSTANCE_ID if another member now has its instance id."""
    existing = draft.static_members.get(instance_id)
    if existing is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {existing}.",
        )
    return draft.members[existing]


def join_static(
    draft: Draft, member_id: str, instance_id: str, *, is_classic: bool, has_heard: bool = True
) -> Member:
    """Return the joining static member: a new one, or the replacement for the one with its instance id.

    If either of the two speaks the classic protocol, the earlier one need not have left.
    """
    existing_id = draft.static_members.get(instance_id)
    if existing_id is None:
        return draft.members.get(member_id) or Member(member_id=member_id)
    existing = draft.members[existing_id]
    must_leave = not is_classic and not existing.is_classic
    return take_over(
        draft, existing, member_id, instance_id, has_heard=has_heard, must_leave=must_leave
    )


def take_over(
    draft: Drafted[M],
    existing: M,
    member_id: str,
    instance_id: str,
    *,
    has_heard: bool,
    must_leave: bool = True,
) -> M:
    """Return a member that replaces the one with its instance id, and inherits its target and assignment.

    Raises Refused with UNRELEASED_INSTANCE_ID, which stops the client, if the earlier member must leave first and has
    not. A member that has just joined, and may have missed the response, may always join again.
    """
    has_just_joined = existing.current.previous_member_epoch == JOINING_EPOCH
    if existing.member_id == member_id and has_just_joined and not has_heard:
        return existing
    if must_leave and existing.current.member_epoch != LEAVING_STATIC_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because"
            f" the instance id is owned by {existing.member_id} member.",
        )
    current = replace(
        existing.current, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH
    )
    member = replace(existing, member_id=member_id, current=current)
    draft.remove(existing.member_id)
    draft.put(member)
    return member
