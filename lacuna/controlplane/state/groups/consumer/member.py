"""A member of a consumer group: its subscription, its target, and its current partitions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.groups.consumer.assignments import (
    Assignment,
    common,
    joined,
    partitions_of,
    read_assignment,
    without,
    write_assignment,
)
from lacuna.controlplane.state.groups.consumer.states import JOINING_EPOCH, MemberState
from lacuna.controlplane.state.groups.live import Protocols, size_of
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ClassicProtocol,
    ConsumerCurrent,
    ConsumerMember,
    ConsumerSubscription,
    ConsumerTarget,
    DescribedConsumerMember,
    TakenBefore,
)
from lacuna.controlplane.v1.groups_pb2 import GroupProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Classic:
    """The properties specific to a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


#: The length of the longest topic name. Members can subscribe to longer names, but no topic has one.
_LONGEST_SHARED: Final = 249


def shared_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return topic names as subscriptions store them: sorted and without duplicates.

    Most members want the same topics, so equal names share one string object. This saves memory, and lets subscriptions
    be compared by pointer.
    """
    ordered = sorted(set(names))
    return tuple(name if len(name) > _LONGEST_SHARED else first_equal(name) for name in ordered)


@lru_cache(maxsize=65_536)
def first_equal(name: str) -> str:
    """Return the first string passed here that equals `name`. (In CPython 3.12, sys.intern never frees strings.)"""
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The subscription that a member declares. Strings that it does not specify are empty."""

    group_instance_id: str = ""
    rack_id: str = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str = ""
    topic_names: tuple[str, ...] = ()  # as `shared_names` returns them
    topic_regex: str = ""
    classic: Classic | None = None  # None if it speaks the consumer protocol

    def to_record(self) -> ConsumerSubscription:
        record = ConsumerSubscription(
            group_instance_id=self.group_instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            topic_names=self.topic_names,
            topic_regex=self.topic_regex,
        )
        if self.classic is not None:
            protocols = [
                GroupProtocol(name=name, metadata=metadata)
                for name, metadata in self.classic.protocols
            ]
            timeout_ms = self.classic.session_timeout_ms
            record.classic.CopyFrom(
                ClassicProtocol(session_timeout_ms=timeout_ms, protocols=protocols)
            )
        return record

    @classmethod
    def from_record(cls, record: ConsumerSubscription) -> "Subscription":
        classic = None
        if record.HasField("classic"):
            protocols = tuple((each.name, each.metadata) for each in record.classic.protocols)
            timeout_ms = record.classic.session_timeout_ms
            classic = Classic(session_timeout_ms=timeout_ms, protocols=protocols)
        return cls(
            group_instance_id=record.group_instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            server_assignor=record.server_assignor,
            topic_names=shared_names(record.topic_names),
            topic_regex=record.topic_regex,
            classic=classic,
        )


def size_of_subscription(subscription: Subscription) -> int:
    """Return the approximate size in bytes, which for a classic member includes its protocols."""
    if subscription.classic is not None:
        return size_of(subscription.classic.protocols)
    texts = (
        subscription.group_instance_id,
        subscription.rack_id,
        subscription.client_id,
        subscription.client_host,
        subscription.topic_regex,
    )
    names = subscription.topic_names
    return sum(map(len, texts)) + sum(map(len, names)) + len(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """A member's epochs, state and partitions.

    A member owns its assigned partitions and, until it confirms that it has given them up, its revoked ones. It took
    them at `taken_epoch`, or at the epochs in `taken_before`.
    """

    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)
    taken_epoch: int = JOINING_EPOCH
    taken_before: tuple[tuple[int, Assignment], ...] = ()

    def taken_epochs(self) -> dict[PartitionKey, int]:
        """Return the epoch at which the member took each partition that it owns."""
        owned = joined(self.assigned, self.revoking)
        epochs = dict.fromkeys(partitions_of(owned), self.taken_epoch)
        for epoch, earlier in self.taken_before:
            epochs.update(dict.fromkeys(partitions_of(earlier), epoch))
        return epochs

    def moved(
        self, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
    ) -> "Current":
        """Return the member's next step, in which, at `epoch`, it takes the partitions that it did not own before."""
        taken_epoch, taken_before = self.taken_epoch, self.taken_before
        owned, before = joined(assigned, revoking), joined(self.assigned, self.revoking)
        if without(owned, before):
            for _, earlier in self.taken_before:
                before = without(before, earlier)
            taken_epoch, taken_before = epoch, (*taken_before, (taken_epoch, before))
        kept = ((each, common(earlier, owned)) for each, earlier in taken_before)
        return Current(
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
            taken_epoch=taken_epoch,
            taken_before=tuple((each, earlier) for each, earlier in kept if earlier),
        )

    def to_record(self) -> ConsumerCurrent:
        return ConsumerCurrent(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned=write_assignment(self.assigned),
            revoking=write_assignment(self.revoking),
            taken_epoch=self.taken_epoch,
            taken_before=[
                TakenBefore(epoch=epoch, partitions=write_assignment(earlier))
                for epoch, earlier in self.taken_before
            ],
        )

    @classmethod
    def from_record(cls, record: ConsumerCurrent) -> "Current":
        return cls(
            member_epoch=record.member_epoch,
            previous_member_epoch=record.previous_member_epoch,
            state=MemberState(record.state),
            assigned=read_assignment(record.assigned),
            revoking=read_assignment(record.revoking),
            taken_epoch=record.taken_epoch,
            taken_before=tuple(
                (each.epoch, read_assignment(each.partitions)) for each in record.taken_before
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    subscription: Subscription = field(default_factory=Subscription)
    target: Assignment = field(default_factory=dict)
    current: Current = field(default_factory=Current)

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member holds exactly its target for this assignment epoch."""
        current = self.current
        return current.state is MemberState.STABLE and current.member_epoch == assignment_epoch

    def described(self) -> DescribedConsumerMember:
        """Return the member's description for operators, without its target."""
        subscription = self.subscription
        return DescribedConsumerMember(
            member_id=self.member_id,
            group_instance_id=subscription.group_instance_id,
            rack_id=subscription.rack_id,
            member_epoch=self.current.member_epoch,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            topic_names=subscription.topic_names,
            topic_regex=subscription.topic_regex,
            assignment=write_assignment(self.current.assigned),
            is_classic=self.is_classic,
        )

    def to_record(self, before: "Member | None" = None) -> ConsumerMember:
        """Return the message for journal records, with all parts or only those that differ from `before`."""
        record = ConsumerMember(member_id=self.member_id)
        if before is None or self.subscription != before.subscription:
            record.subscription.CopyFrom(self.subscription.to_record())
        if before is None or self.target != before.target:
            record.target.CopyFrom(ConsumerTarget(partitions=write_assignment(self.target)))
        if before is None or self.current != before.current:
            record.current.CopyFrom(self.current.to_record())
        return record

    @classmethod
    def from_record(cls, record: ConsumerMember, before: "Member | None" = None) -> "Member":
        """Read the message from a journal record. Missing parts are taken from `before`."""
        before = before or cls(member_id=record.member_id)
        return cls(
            member_id=record.member_id,
            subscription=(
                Subscription.from_record(record.subscription)
                if record.HasField("subscription")
                else before.subscription
            ),
            target=(
                read_assignment(record.target.partitions)
                if record.HasField("target")
                else before.target
            ),
            current=(
                Current.from_record(record.current)
                if record.HasField("current")
                else before.current
            ),
        )
