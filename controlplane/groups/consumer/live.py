"""The volatile part of consumer groups: what is due when. Not journalled (S26).

After a restart every member has its full session timeout, and who was revoking its full rebalance
timeout.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from controlplane.groups.consumer.group import ConsumerGroup
from controlplane.groups.consumer.member import Member
from controlplane.groups.consumer.states import LEAVING_STATIC_EPOCH, MemberState


class Deadline(IntEnum):
    """Why a member is put out when its time is over."""

    SESSION = 0  # it was not heard of
    REVOCATION = 1  # it did not give up what it is to give up
    JOIN = 2  # a classic member was told of a rebalance and did not join
    SYNC = 3  # a classic member joined and did not fetch its assignment


@dataclass(slots=True)
class LiveConsumerGroup:
    """Deadlines of one group, milliseconds, by (member id, kind)."""

    deadlines: dict[tuple[str, Deadline], int] = field(default_factory=dict)
    # A lower bound of all deadlines: heartbeats move them on without touching it.
    due_ms: int | None = None
    # The version of the cluster's topics that the group's epoch was last held against; None: never.
    topics_version: int | None = None

    @classmethod
    def wake(
        cls, group: ConsumerGroup, session_timeout_ms: int, now_ms: int
    ) -> "LiveConsumerGroup":
        """Of a group that the journal brought back."""
        live = cls()
        for member in group.members.values():
            live.expect_heartbeat(member, session_timeout_ms, now_ms)
            live.follow(None, member, now_ms)
        return live

    def expect_heartbeat(self, member: Member, session_timeout_ms: int, now_ms: int) -> None:
        """Begin the member's session anew: the group's, or its own if it speaks the classic protocol."""
        classic = member.subscription.classic
        timeout_ms = session_timeout_ms if classic is None else classic.session_timeout_ms
        self.set(member.member_id, Deadline.SESSION, now_ms + timeout_ms)

    def follow(self, before: Member | None, member: Member, now_ms: int) -> None:
        """Start or stop the time that a member has to revoke, as its state has changed."""
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
        """Set a deadline, or move it."""
        self.deadlines[member_id, kind] = deadline_ms
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms

    def set_if_absent(self, member_id: str, kind: Deadline, deadline_ms: int) -> None:
        """Set a deadline unless it runs already."""
        if (member_id, kind) not in self.deadlines:
            self.set(member_id, kind, deadline_ms)

    def clear(self, member_id: str, kind: Deadline) -> None:
        """The member did what it had to."""
        self.deadlines.pop((member_id, kind), None)

    def forget(self, member_id: str) -> None:
        """The member is out."""
        for kind in Deadline:
            self.clear(member_id, kind)

    def overdue(self, now_ms: int) -> Iterator[tuple[str, Deadline]]:
        """What is not after now, in the order of time."""
        due = [(at_ms, key) for key, at_ms in self.deadlines.items() if at_ms <= now_ms]
        return (key for _, key in sorted(due))

    def refresh_due(self) -> None:
        """Recompute the lower bound."""
        self.due_ms = min(self.deadlines.values(), default=None)
