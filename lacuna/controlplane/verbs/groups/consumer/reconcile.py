"""Moves a member one step towards its target (KIP-848): it gives up partitions, then takes free ones."""

from collections.abc import Collection
from dataclasses import replace

from lacuna.controlplane.state.groups.consumer.assignments import (
    Assignment,
    common,
    joined,
    partitions_of,
    without,
)
from lacuna.controlplane.state.groups.consumer.member import Member
from lacuna.controlplane.state.groups.consumer.states import MemberState


def reconcile(
    member: Member,
    assignment_epoch: int,
    held: Collection[tuple[bytes, int]],
    owned: Assignment | None,
) -> Member:
    """Return the member after one step, or the same object if there is nothing to do.

    `held` contains the partitions that any member holds or has yet to give up. `owned` contains those that the member
    declares, or is None without a declaration. A member gives partitions up only by sending a declaration without them.
    """
    if member.is_reconciled_to(assignment_epoch):
        return member
    current = member.current
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, current.revoking):
            return member
        return _step(member, current.member_epoch + 1, assignment_epoch, held, owned)
    return _step(member, current.member_epoch, assignment_epoch, held, owned)


def _step(
    member: Member,
    member_epoch: int,
    assignment_epoch: int,
    held: Collection[tuple[bytes, int]],
    owned: Assignment | None,
) -> Member:
    kept = common(member.current.assigned, member.target)
    revoking = without(member.current.assigned, kept)
    if revoking and _owns_any(owned, revoking):
        # The member keeps its epoch until it confirms that it has given them up.
        return _moved(member, member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    wanted = without(member.target, kept)
    unreleased = {key for key in partitions_of(wanted) if key in held}
    taken = without(wanted, _assignment_of(unreleased))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return _moved(member, assignment_epoch, state, joined(kept, taken), {})


def _moved(
    member: Member, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
) -> Member:
    before = member.current
    if (epoch, state, assigned, revoking) == (
        before.member_epoch,
        before.state,
        before.assigned,
        before.revoking,
    ):
        return member
    return replace(member, current=before.moved(epoch, state, assigned, revoking))


def _owns_any(owned: Assignment | None, revoking: Assignment) -> bool:
    return owned is None or bool(common(owned, revoking))


def _assignment_of(keys: Collection[tuple[bytes, int]]) -> Assignment:
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, partition in keys:
        by_topic.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(each) for topic_id, each in by_topic.items()}
