"""All groups: what is durable, what is volatile beside it, and the replay of journal records."""

from dataclasses import dataclass, field

from controlplane.groups.live import LiveGroup, LiveGroups
from controlplane.groups.offsets import Offsets
from controlplane.groups.settings import GroupSettings
from controlplane.v1.group_records_pb2 import GroupGeneration, GroupRecord, GroupsSnapshot


@dataclass(slots=True)
class Groups:
    """Classic groups and offsets. `generations` and `offsets` are durable, `live` is volatile.

    Only `replay`, `end_transaction` and `forget_topic` change what is durable.
    """

    settings: GroupSettings = field(default_factory=GroupSettings)
    generations: dict[str, GroupGeneration] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    live: LiveGroups = field(default_factory=LiveGroups)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Make a producer's pending offsets count, or drop them. Part of the outcome's replay."""
        self.offsets.end_transaction(producer_id, committed)

    def forget_topic(self, topic_id: bytes) -> None:
        """Drop all offsets of a deleted topic (S6). Part of the deletion's replay."""
        self.offsets.forget_topic(topic_id)

    def forget_token(self, token: int) -> None:
        """Nobody waits under this token any more; the member stays until its session ends."""
        self.live.parked.discard(token)

    def exists(self, group_id: str) -> bool:
        """Whether a group has members, a journalled generation or offsets."""
        return (
            group_id in self.live.groups
            or group_id in self.generations
            or self.offsets.has_group(group_id)
        )

    def group_ids(self) -> list[str]:
        """All groups, each once, sorted."""
        return sorted({*self.live.groups, *self.generations, *self.offsets.group_ids()})

    def find(self, group_id: str, now_ms: int) -> LiveGroup | None:
        """The group as it is now, woken from its journalled generation if need be."""
        group = self.live.groups.get(group_id)
        if group is None and self.exists(group_id):
            return self.open(group_id, now_ms)
        return group

    def open(self, group_id: str, now_ms: int) -> LiveGroup:
        """The group as it is now, created if it does not exist."""
        group = self.live.groups.get(group_id)
        if group is None:
            generation = self.generations.get(group_id)
            if generation is None:
                group = LiveGroup(group_id=group_id)
            else:
                group = LiveGroup.from_generation(generation, now_ms)
            self.live.groups[group_id] = group
            self.live.asleep.discard(group_id)
        return group

    def to_snapshot(self) -> GroupsSnapshot:
        """All durable state; equal states give equal bytes."""
        snapshot = GroupsSnapshot(
            generations=[generation for _, generation in sorted(self.generations.items())]
        )
        self.offsets.to_snapshot(snapshot)
        return snapshot

    @classmethod
    def from_snapshot(
        cls, snapshot: GroupsSnapshot, settings: GroupSettings | None = None
    ) -> "Groups":
        """The state that a snapshot holds. Sessions start anew at the first use or tick (S26)."""
        groups = cls(settings=settings or GroupSettings(), offsets=Offsets.from_snapshot(snapshot))
        for generation in snapshot.generations:
            _keep_generation(groups, generation)
        return groups


def replay(groups: Groups, record: GroupRecord) -> None:
    """Apply one journal record: the one way in which durable state changes."""
    match record.WhichOneof("record"):
        case "group_generation":
            _keep_generation(groups, record.group_generation)
        case "group_deleted":
            group_id = record.group_deleted.group_id
            groups.generations.pop(group_id, None)
            groups.live.groups.pop(group_id, None)
            groups.live.asleep.discard(group_id)
            groups.offsets.forget_group(group_id)
        case "offsets_written":
            groups.offsets.write(record.offsets_written)
        case "txn_offsets_pended":
            groups.offsets.pend(record.txn_offsets_pended)
        case "offsets_expired":
            expired = record.offsets_expired
            groups.offsets.expire(expired.group_id, expired.partitions)
        case unknown:
            raise UnknownGroupRecordError(unknown)


class UnknownGroupRecordError(ValueError):
    """The journal holds a record that this version does not know."""

    def __init__(self, name: str | None) -> None:
        super().__init__(
            f"the journal holds a group record that this version does not know ({name}):"
            " start the version that wrote it, or a later one"
        )


def _keep_generation(groups: Groups, generation: GroupGeneration) -> None:
    groups.generations[generation.group_id] = generation
    if generation.group_id in groups.live.groups:
        return
    # Its members' sessions begin when somebody first looks, not when the journal is read.
    if generation.members:
        groups.live.asleep.add(generation.group_id)
    else:
        groups.live.asleep.discard(generation.group_id)
