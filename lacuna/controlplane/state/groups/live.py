"""The volatile part of classic groups: members that are joining or waiting, and deadlines.

None of it is journalled. After a restart, it is rebuilt from the last journalled generation, with full session timeouts
(S26).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from lacuna.controlplane.state.groups.states import TRANSITIONS, GroupState, IllegalTransitionError
from lacuna.controlplane.state.owners import Owners
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, GroupMember

Protocols = tuple[tuple[str, bytes], ...]  # (name, metadata), the member's preference first
_PROTOCOL_SIZE = 64  # bytes that a protocol takes besides its name and metadata


#: The approximate size of a group or member in bytes, without the values that its client chooses.
SIZE_OF_NAME: Final = 256


def size_of(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) + _PROTOCOL_SIZE for name, metadata in protocols)


@dataclass(slots=True, kw_only=True)
class LiveMember:
    """A member. `join_token` or `sync_token` is set while its JoinGroup or SyncGroup is parked."""

    member_id: str
    group_instance_id: str  # empty for a dynamic member
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  # its first JoinGroup has not been answered yet
    join_token: int | None = None
    sync_token: int | None = None
    session_deadline_ms: int | None = None  # None while it waits for an answer

    @property
    def awaits_answer(self) -> bool:
        """Whether the member is waiting for an answer, and therefore cannot (and need not) send heartbeats.

        False for a new member, which has no id yet: its client may have given up and joined as another member.
        """
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata_of(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol, or nothing if the member does not speak it."""
        return dict(self.protocols).get(protocol_name, b"")


@dataclass(slots=True, kw_only=True)
class LiveGroup:
    """The current state of a classic group, possibly ahead of its last journalled generation."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str = ""  # empty if the group has had no member, only offsets
    protocol_name: str = ""
    leader: str = ""
    members: dict[str, LiveMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id → member id
    pending_joins: dict[str, int] = field(default_factory=dict)  # member id → its deadline
    pending_syncs: set[str] = field(default_factory=set)
    # The size of all members' protocols in bytes, and the number of members that speak each protocol.
    metadata_size: int = 0
    speakers: Counter[str] = field(default_factory=Counter)
    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    # For the first rebalance of an empty group, which can be delayed while members keep joining.
    is_initial_rebalance: bool = False
    initial_remaining_ms: int = 0
    has_new_member: bool = False
    # An operator deleted its last offset. As in Kafka, the group exists until the next check for expired offsets.
    is_emptied: bool = False
    # A lower bound on all deadlines. Heartbeats move deadlines later without changing it.
    due_ms: int | None = None
    # How much of `LiveGroups.moved_ms` has been applied to the deadlines.
    moved_ms: int = 0

    def transition_to(self, target: GroupState) -> None:
        """Change the state. Raises IllegalTransitionError for a transition that is not in the table."""
        if target not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(self.group_id, self.state, target)
        self.state = target

    def add(self, member: LiveMember) -> None:
        """Add a member. It becomes the leader if there is none."""
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.group_instance_id:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.leader:
            self.leader = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a pending member id. If the leader leaves, the oldest member succeeds it."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
        if member is not None and member.group_instance_id:
            del self.static_members[member.group_instance_id]
        if member_id == self.leader:
            self.leader = next(iter(self.members), "")
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.discard(member_id)

    def rename(self, old_member_id: str, new_member_id: str) -> LiveMember:
        """Give a static member a new id, and return the member, which keeps its place in the order (KIP-345)."""
        member = self.members[old_member_id]
        self.members = {
            (new_member_id if member_id == old_member_id else member_id): other
            for member_id, other in self.members.items()
        }
        member.member_id = new_member_id
        self.static_members[member.group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_syncs:
            self.pending_syncs.discard(old_member_id)
            self.pending_syncs.add(new_member_id)
        return member

    def change_protocols(self, member: LiveMember, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        member.protocols = protocols

    def joined_members(self) -> Iterator[LiveMember]:
        return (member for member in self.members.values() if member.join_token is not None)

    def have_all_joined(self) -> bool:
        """Whether all members have joined, and no client that received a new member id has yet to join."""
        return not self.pending_joins and all(
            member.join_token is not None for member in self.members.values()
        )

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of any member in milliseconds, or 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a joining member with these protocols shares one with all members."""
        if not self.members:
            return bool(protocol_type) and any(True for _ in names)
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name in names)

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, among those that all of them speak. In a tie, the one with the
        earliest vote wins.
        """
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, otherwise choose a member that has. Return False if none has."""
        if self.leader and self.members[self.leader].join_token is not None:
            return True
        joined = next(self.joined_members(), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def note_due(self, deadline_ms: int) -> None:
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms

    def expect_heartbeat(self, member: LiveMember, now_ms: int, timeout_ms: int = 0) -> None:
        """Restart a member's session, with `timeout_ms` if it is given, or else with the member's own timeout."""
        member.session_deadline_ms = now_ms + (timeout_ms or member.session_timeout_ms)
        self.note_due(member.session_deadline_ms)

    def refresh_due(self) -> None:
        deadlines = [
            member.session_deadline_ms
            for member in self.members.values()
            if member.session_deadline_ms is not None
        ]
        deadlines.extend(self.pending_joins.values())
        deadlines.extend(
            deadline
            for deadline in (self.join_deadline_ms, self.sync_deadline_ms)
            if deadline is not None
        )
        self.due_ms = min(deadlines, default=None)

    def is_due(self, now_ms: int, moved_ms: int) -> bool:
        """Whether a deadline may have passed, counting the part of `moved_ms` that has not yet been applied."""
        return self.due_ms is not None and self.due_ms + moved_ms - self.moved_ms <= now_ms

    def settle(self, moved_ms: int) -> None:
        """Move all deadlines by the part of `moved_ms` that has not yet been applied (see `LiveGroups`)."""
        if by_ms := moved_ms - self.moved_ms:
            self.moved_ms = moved_ms
            self._shift(by_ms)

    def _shift(self, by_ms: int) -> None:
        for member in self.members.values():
            if member.session_deadline_ms is not None:
                member.session_deadline_ms += by_ms
        self.pending_joins = {each: at_ms + by_ms for each, at_ms in self.pending_joins.items()}
        if self.join_deadline_ms is not None:
            self.join_deadline_ms += by_ms
        if self.sync_deadline_ms is not None:
            self.sync_deadline_ms += by_ms
        self.refresh_due()

    def to_generation(self, now_ms: int) -> GroupGeneration:
        return GroupGeneration(
            group_id=self.group_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader,
            members=[_to_record(member, self.protocol_name) for member in self.members.values()],
            written_at_ms=now_ms,
        )

    @classmethod
    def from_generation(cls, record: GroupGeneration, now_ms: int) -> "LiveGroup":
        """Restore a group from the journal, with full session timeouts starting at `now_ms`."""
        group = cls(
            group_id=record.group_id,
            state=GroupState.STABLE if record.members else GroupState.EMPTY,
            generation_id=record.generation_id,
            protocol_type=record.protocol_type,
            protocol_name=record.protocol_name,
            leader=record.leader,
        )
        for member in record.members:
            live = _from_record(member, record.protocol_name)
            group.add(live)
            group.expect_heartbeat(live, now_ms)
        return group

    def _count(self, protocols: Protocols, sign: int) -> None:
        self.metadata_size += sign * size_of(protocols)
        for name in {name for name, _ in protocols}:
            self.speakers[name] += sign
            if not self.speakers[name]:
                del self.speakers[name]

    def _common_protocols(self) -> set[str]:
        return {name for name, count in self.speakers.items() if count == len(self.members)}


@dataclass(slots=True)
class LiveGroups:
    groups: dict[str, LiveGroup] = field(default_factory=dict)
    asleep: set[str] = field(default_factory=set)  # journalled with members, not yet loaded
    parked: set[int] = field(default_factory=set)  # tokens of parked commands
    # The bytes of each group's members, and the total.
    sizes: dict[str, int] = field(default_factory=dict)
    size: int = 0
    owners: Owners[str] = field(default_factory=Owners)
    #: By how much pauses and clock jumps have moved all deadlines, including those of consumer groups. A group's own
    #: deadlines are moved when the group is next used, so that a pause costs the same with any number of groups.
    moved_ms: int = 0
    next_expiry_check_ms: int | None = None  # None before the first tick
    expiring: list[str] = field(
        default_factory=list
    )  # groups whose offsets are still to be checked

    def weigh(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        size = 0
        if group is not None:
            count = 1 + len(group.members) + len(group.pending_joins)
            size = SIZE_OF_NAME * count + len(group_id) + group.metadata_size
        more = size - self.sizes.pop(group_id, 0)
        self.size += more
        self.owners.charge(group_id, more)
        if size:
            self.sizes[group_id] = size


def _to_record(member: LiveMember, protocol_name: str) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        metadata=member.metadata_of(protocol_name),
        assignment=member.assignment,
    )


def _from_record(member: GroupMember, protocol_name: str) -> LiveMember:
    return LiveMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=((protocol_name, member.metadata),),
        assignment=member.assignment,
    )
