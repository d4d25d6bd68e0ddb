"""The volatile part of consumer groups: deadlines, and the sessions over which the last answers were sent (S26).

After a restart, every member has its full session timeout, and a member that was revoking partitions has its full
rebalance timeout.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from enum import IntEnum

from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.state.groups.consumer.member import Member
from lacuna.controlplane.state.groups.consumer.states import LEAVING_STATIC_EPOCH, MemberState


class Deadline(IntEnum):
    """The kinds of deadlines, each with the reason for removing a member that misses it."""

    SESSION = 0  # it sent no heartbeat
    REVOCATION = 1  # it did not give up partitions as requested
    JOIN = 2  # a classic member was notified of a rebalance and did not join
    SYNC = 3  # a classic member joined and did not fetch its assignment


@dataclass(slots=True)
class LiveConsumerGroup:
    """The deadlines of a group, in milliseconds, by (member id, kind)."""

    deadlines: dict[tuple[str, Deadline], int] = field(default_factory=dict)
    # Member id → the number of the session over which its last heartbeat was answered.
    answered_over: dict[str, int] = field(default_factory=dict)
    # A lower bound on all deadlines. Heartbeats move deadlines later without changing it.
    due_ms: int | None = None
    # How much of `LiveGroups.moved_ms` has been applied to the deadlines.
    moved_ms: int = 0
    # The version of the cluster's topics against which the group's epoch was last checked; None if never.
    topics_version: int | None = None

    @classmethod
    def wake(
        cls, group: ConsumerGroup, session_timeout_ms: int, now_ms: int
    ) -> "LiveConsumerGroup":
        """Restore a group from the journal, with full deadlines."""
        live = cls()
        for member in group.members.values():
            live.expect_heartbeat(member, session_timeout_ms, now_ms)
            live.follow(None, member, now_ms)
        return live

    def expect_heartbeat(self, member: Member, session_timeout_ms: int, now_ms: int) -> None:
        """Restart the member's session, with the member's own timeout if it speaks the classic protocol, or else the
        group's.
        """
        classic = member.subscription.classic
        timeout_ms = session_timeout_ms if classic is None else classic.session_timeout_ms
        self.set(member.member_id, Deadline.SESSION, now_ms + timeout_ms)

    def has_heard(self, member_id: str, session: int) -> bool:
        """Whether a member that sends a heartbeat over this session has certainly received its last answer.

        An answer is lost only together with the agent's session. It is unknown how the agent reacted to the loss: it
        may have sent the heartbeat again, or have answered it itself (adr/0034).
        """
        return self.answered_over.get(member_id) == session

    def follow(self, before: Member | None, member: Member, now_ms: int) -> None:
        """Start or clear a member's revocation deadline if its state has changed from `before`."""
        if before is not None and before.current == member.current:
            return
        is_revoking = (
            member.current.state is MemberState.UNREVOKED_PARTITIONS
            and member.current.member_epoch != LEAVING_STATIC_EPOCH
        )
        if is_revoking and not member.is_classic:
            due_ms = now_ms + max(member.subscription.rebalance_timeout_ms, 0)
            self.set(member.member_id, Deadline.REVOCATION, due_ms)
        else:
            self.clear(member.member_id, Deadline.REVOCATION)

    def set(self, member_id: str, kind: Deadline, deadline_ms: int) -> None:
        self.deadlines[member_id, kind] = deadline_ms
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms

    def set_if_absent(self, member_id: str, kind: Deadline, deadline_ms: int) -> None:
        if (member_id, kind) not in self.deadlines:
            self.set(member_id, kind, deadline_ms)

    def clear(self, member_id: str, kind: Deadline) -> None:
        self.deadlines.pop((member_id, kind), None)

    def forget(self, member_id: str) -> None:
        self.answered_over.pop(member_id, None)
        for kind in Deadline:
            self.clear(member_id, kind)

    def overdue(self, now_ms: int) -> Set[str]:
        return {member_id for (member_id, _), at_ms in self.deadlines.items() if at_ms <= now_ms}

    def is_due(self, now_ms: int, moved_ms: int) -> bool:
        """Whether a deadline may have passed, counting the part of `moved_ms` that has not yet been applied."""
        return self.due_ms is not None and self.due_ms + moved_ms - self.moved_ms <= now_ms

    def settle(self, moved_ms: int) -> None:
        """Move all deadlines by the part of `moved_ms` that has not yet been applied (see `LiveGroups`)."""
        if by_ms := moved_ms - self.moved_ms:
            self.moved_ms = moved_ms
            self._shift(by_ms)

    def _shift(self, by_ms: int) -> None:
        self.deadlines = {key: at_ms + by_ms for key, at_ms in self.deadlines.items()}
        self.refresh_due()

    def refresh_due(self) -> None:
        self.due_ms = min(self.deadlines.values(), default=None)
