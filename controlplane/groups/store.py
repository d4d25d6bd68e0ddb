"""All groups: what is durable, what is volatile beside it, and the replay of journal records."""

from dataclasses import dataclass, field

from controlplane.group_configs import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from controlplane.groups.consumer.group import ConsumerGroup
from controlplane.groups.consumer.live import LiveConsumerGroup
from controlplane.groups.consumer.subscriptions import Resolver
from controlplane.groups.live import LiveGroup, LiveGroups
from controlplane.groups.offsets import Offsets
from controlplane.groups.settings import GroupSettings
from controlplane.v1.consumer_groups_pb2 import ConsumerGroupStep, GroupConfigs
from controlplane.v1.group_records_pb2 import GroupGeneration, GroupRecord, GroupsSnapshot


@dataclass(slots=True)
class Groups:
    """All groups and offsets. Durable are `generations` (of classic groups), `consumers`, `offsets` and
    `configs` (group id → what was set on it, whether there is such a group or not); volatile are `live`,
    `live_consumers` and what `resolver` remembers. A group is classic or a consumer group, never both.

    Only `replay`, `end_transaction` and `forget_topic` change what is durable.
    """

    settings: GroupSettings = field(default_factory=GroupSettings)
    generations: dict[str, GroupGeneration] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    consumers: dict[str, ConsumerGroup] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    live: LiveGroups = field(default_factory=LiveGroups)
    live_consumers: dict[str, LiveConsumerGroup] = field(default_factory=dict)
    resolver: Resolver = field(default_factory=Resolver)

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
            or group_id in self.consumers
            or self.offsets.has_group(group_id)
        )

    def group_ids(self) -> list[str]:
        """All groups, each once, sorted."""
        return sorted(
            {*self.live.groups, *self.generations, *self.consumers, *self.offsets.group_ids()}
        )

    def find(self, group_id: str, now_ms: int) -> LiveGroup | None:
        """The classic group as it is now, woken from its journalled generation if need be."""
        group = self.live.groups.get(group_id)
        if group is None and group_id not in self.consumers and self.exists(group_id):
            return self.open(group_id, now_ms)
        return group

    def open(self, group_id: str, now_ms: int) -> LiveGroup:
        """The classic group as it is now, created if it does not exist."""
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

    def open_consumer(self, group: ConsumerGroup, now_ms: int) -> LiveConsumerGroup:
        """The deadlines of a consumer group, set anew if the journal brought it back."""
        live = self.live_consumers.get(group.group_id)
        if live is None:
            timeout_ms = self.consumer_session_timeout_ms(group.group_id)
            live = LiveConsumerGroup.wake(group, timeout_ms, now_ms)
            self.live_consumers[group.group_id] = live
        return live

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        """How long a member that speaks the consumer protocol need not be heard of."""
        own = self.configs.get(group_id, {}).get(SESSION_TIMEOUT)
        return self.settings.consumer_session_timeout_ms if own is None else int(own)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        """How often such a member is to be heard of."""
        own = self.configs.get(group_id, {}).get(HEARTBEAT_INTERVAL)
        return self.settings.consumer_heartbeat_interval_ms if own is None else int(own)

    def to_snapshot(self) -> GroupsSnapshot:
        """All durable state; equal states give equal bytes."""
        snapshot = GroupsSnapshot(
            generations=[generation for _, generation in sorted(self.generations.items())],
            consumer_groups=[group.to_step() for _, group in sorted(self.consumers.items())],
            configs=[
                GroupConfigs(group_id=group_id, configs=configs)
                for group_id, configs in sorted(self.configs.items())
            ],
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
        for step in snapshot.consumer_groups:
            _take_step(groups, step)
        for group in snapshot.configs:
            _take_configs(groups, group)
        return groups


def replay(groups: Groups, record: GroupRecord) -> None:
    """Apply one journal record: the one way in which durable state changes."""
    match record.WhichOneof("record"):
        case "group_generation":
            _keep_generation(groups, record.group_generation)
        case "group_deleted":
            group_id = record.group_deleted.group_id
            groups.generations.pop(group_id, None)
            groups.consumers.pop(group_id, None)
            groups.live_consumers.pop(group_id, None)
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
        case "consumer_group_step":
            _take_step(groups, record.consumer_group_step)
        case "group_configs_changed":
            _take_configs(groups, record.group_configs_changed)
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
    groups.consumers.pop(generation.group_id, None)
    groups.live_consumers.pop(generation.group_id, None)
    if generation.group_id in groups.live.groups:
        return
    # Its members' sessions begin when somebody first looks, not when the journal is read.
    if generation.members:
        groups.live.asleep.add(generation.group_id)
    else:
        groups.live.asleep.discard(generation.group_id)


def _take_step(groups: Groups, step: ConsumerGroupStep) -> None:
    group = groups.consumers.get(step.group_id)
    if group is None:
        group = groups.consumers[step.group_id] = ConsumerGroup(group_id=step.group_id)
        groups.generations.pop(step.group_id, None)
        groups.live.groups.pop(step.group_id, None)
        groups.live.asleep.discard(step.group_id)
    group.apply(step)


def _take_configs(groups: Groups, record: GroupConfigs) -> None:
    if record.configs:
        groups.configs[record.group_id] = dict(record.configs)
    else:
        groups.configs.pop(record.group_id, None)
