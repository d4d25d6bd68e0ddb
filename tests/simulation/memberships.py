"""Judges the answers of KIP-848 groups to their members.

A group may not assign a partition that another member holds, expel a member that sends heartbeats in time, or let a
member continue without sending it its epoch and partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias
from unittest import mock

from lacuna.agent.members import Members
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.consumer.assignments import partitions_of
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from tests.simulation.history import History

if TYPE_CHECKING:
    from tests.simulation.groups import ConsumerMember

SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 5_000
#: The seconds after which a group may put out a member that is silent, or does not give up what it should. The control
#: plane's time passes at twice the pace at most, while it catches up with its clock (ADR 25).
PATIENCE: Final = min(SESSION_MS, REBALANCE_MS) / 2000
#: The group has put the member out. The last one comes if it was the last member of this protocol.
PUT_OUT: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})


#: The epoch of a member, and its partitions or active tasks, as the leader knows them.
Known: TypeAlias = tuple[int, frozenset[int]]


class Watch:
    """What clients cannot see of their groups: the control plane's state, and agents' own answers."""

    def __init__(
        self,
        history: History,
        is_timely: Callable[[], bool],
        state: Callable[[], State | None],
    ) -> None:
        self.history = history
        #: Whether the control plane's clock was never moved, which may end a member's time early.
        self.is_timely = is_timely
        self._state = state
        #: When an agent last answered a heartbeat by itself, by group, member id and epoch.
        self._kept: dict[Hashable, float] = {}

    @contextmanager
    def of_agents(self) -> Iterator[None]:
        """Record which members agents keep while they cannot reach a control plane."""
        reply_to = Members._reply_to

        def noted(members: Members, member: Hashable) -> Reply | None:
            reply = reply_to(members, member)
            if reply is not None:
                self._kept[member] = self.history.now()
                self.history.counts["heartbeats that agents answered"] += 1
            return reply

        with mock.patch.object(Members, "_reply_to", noted):
            yield

    def was_kept(self, member: Hashable, since: float) -> bool:
        """Return whether an agent may have answered this heartbeat without a control plane."""
        return self._kept.get(member, since - 1) >= since

    def current(self, group: str, member_id: str) -> Known | None:
        """Return what the leader knows about a member, or None if it does not know it."""
        state = self._state()
        if state is None:
            return None
        if (streams := state.groups.streams.get(group)) is not None:
            tasks = streams.members.get(member_id)
            current = None if tasks is None else tasks.current
            return (
                None if current is None else _known(current.member_epoch, current.assigned.active)
            )
        found = state.groups.consumers.get(group)
        member = None if found is None else found.members.get(member_id)
        if member is None:
            return None
        return _known(member.current.member_epoch, partitions_of(member.current.assigned))


def _known(epoch: int, held: Iterable[tuple[object, int]]) -> Known:
    return epoch, frozenset(partition for _, partition in held)


class Group:
    """A group that reads one topic, and its past and present members that use KIP-848's protocol."""

    def __init__(self, name: str, topic: str, partitions: int, watch: Watch) -> None:
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.now = watch.history.now
        self._history = watch.history
        self._watch = watch
        self._members: list[ConsumerMember] = []

    def join(self, member: ConsumerMember) -> None:
        """Add a new member."""
        self._members.append(member)

    def given(self, member: ConsumerMember, partitions: frozenset[int]) -> None:
        """Check that no other member may hold one of the partitions that a member received."""
        if not self._watch.is_timely():
            return
        for other in self._members:
            for partition in partitions & other.held() if other is not member else ():
                self._history.wrong(
                    f"{member.member_id} is given partition {partition} of {self.name}, "
                    f"which {other.member_id} has not given up"
                )

    def heard(self, member: ConsumerMember, epoch: int, sent_at: float) -> bool:
        """Return whether the group processed an answered heartbeat that a member sent with this epoch at this time."""
        return not self._watch.was_kept(self.key(member.member_id, epoch), sent_at)

    def forged(self, member: ConsumerMember) -> None:
        """Report that the group has accepted a heartbeat with an epoch that it never issued."""
        self._history.wrong(f"{self.name} believed a forged epoch of {member.member_id}")

    def key(self, member_id: str, epoch: int) -> Hashable:
        """Identify a heartbeat as agents do when they answer it on their own."""
        return (self.name, member_id, epoch)

    def told(self, member: ConsumerMember, sent_at: float) -> None:
        """Check that a member whose heartbeat the group has answered knows its epoch and its partitions.

        This excludes a step that was decided later, which the answer to the next heartbeat must report.
        """
        current = self._watch.current(self.name, member.member_id)
        if member.is_doubtful or current is None:
            return
        epoch, assigned = current
        if current == (member.epoch, member.target):
            member.untold = None
        elif member.untold != current:
            member.untold = current
        elif not self._history.may_be_stale(sent_at):
            self._history.wrong(
                f"{member.member_id} is at epoch {epoch} of {self.name} with {sorted(assigned)}, and "
                f"was last told of epoch {member.epoch} and {sorted(member.target)}"
            )

    def refused(self, member: ConsumerMember, code: ErrorCode, sent_at: float) -> None:
        """Check that a member that has to rejoin was silent, or kept a revoked partition.

        It may also have just rejoined, or not know the result of a heartbeat.
        """
        self._history.counts["members that were put out"] += code in PUT_OUT
        if member.is_doubtful or member.epoch == 0:
            return
        since = self.now() - member.confirmed_at
        if code == ErrorCode.FENCED_MEMBER_EPOCH:
            why = "each of its heartbeats was answered"
        elif code in PUT_OUT and since < PATIENCE:
            why = f"it was in the group {since:.3f} s before, and owed it nothing"
        else:
            return
        if not self._history.may_be_stale(sent_at):
            self._history.wrong(f"{member.member_id} is told {code.name} by {self.name}, and {why}")
