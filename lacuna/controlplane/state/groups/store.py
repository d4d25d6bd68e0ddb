"""All groups and their offsets: both the durable and the volatile state."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from lacuna.controlplane.shared.group_configs import (
    GROUP_CONFIGS,
    HEARTBEAT_INTERVAL,
    RECORD_LOCK_DURATION,
    SESSION_TIMEOUT,
    SHARE_SESSION_TIMEOUT,
)
from lacuna.controlplane.state.deadlines import Deadlines
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.state.groups.consumer.live import LiveConsumerGroup
from lacuna.controlplane.state.groups.consumer.subscriptions import Resolver
from lacuna.controlplane.state.groups.live import SIZE_OF_NAME, LiveGroup, LiveGroups
from lacuna.controlplane.state.groups.offsets import Offsets
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.groups.share import ShareGroup
from lacuna.controlplane.state.groups.streams import LiveStreamsGroup, StreamsGroup
from lacuna.controlplane.state.owners import NOBODY, Owners
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupStep,
    GroupConfigs,
    StreamsGroupStep,
)
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, GroupsSnapshot
from lacuna.controlplane.v1.share_pb2 import SharePartitionsStep


@dataclass(slots=True)
class Groups:
    """All groups and offsets. Each group is a classic, consumer, share or streams group.

    `generations` (of classic groups), `consumers`, `shares`, `streams`, `offsets` and `configs` (group id → configs set
    on it, even if there is no such group) are durable, and only replay changes them. `live`, `live_consumers` (also for
    share groups), `live_streams`, `locks`, `dying`, `buriers`, `shared` and the cache of `resolver` are volatile.
    """

    settings: GroupSettings = field(default_factory=GroupSettings)
    generations: dict[str, GroupGeneration] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    consumers: dict[str, ConsumerGroup] = field(default_factory=dict)
    shares: dict[str, ShareGroup] = field(default_factory=dict)
    streams: dict[str, StreamsGroup] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    live: LiveGroups = field(default_factory=LiveGroups)
    live_consumers: dict[str, LiveConsumerGroup] = field(default_factory=dict)
    live_streams: dict[str, LiveStreamsGroup] = field(default_factory=dict)
    resolver: Resolver = field(default_factory=Resolver)
    #: Counts of share groups' records by what was decided about them, for metrics.
    shared: Counter[str] = field(default_factory=Counter)
    #: When the first lock of each share group ends.
    locks: Deadlines[str] = field(default_factory=Deadlines)
    #: Share groups with records that wait for their dead-letter queue.
    dying: set[str] = field(default_factory=set)
    #: The session that has reserved each share group's dead letters, and until when, so that two agents do not write
    #: the same letters. Groups with later times are planned after the others.
    buriers: dict[str, tuple[object, int]] = field(default_factory=dict)
    # Derived from the above: the bytes of each group without its offsets, and of all groups.
    sizes: dict[str, int] = field(default_factory=dict)
    size: int = 0

    @property
    def kept_bytes(self) -> int:
        """The approximate number of bytes kept for clients: generations, subscriptions, configs, offsets and joins."""
        return self.size + self.offsets.size + self.live.size

    @property
    def owners(self) -> Owners[str]:
        return self.offsets.owners

    def payer(self, group_id: str, principal: str) -> str:
        """Return the principal that is charged for data that `principal` stores in a group."""
        joined = self.live.owners.payer(group_id, principal)
        return self.owners.payer(group_id, joined)

    def has_room(self, group_id: str, more: int, principal: str) -> bool:
        """Whether `principal` may store `more` additional bytes in a group."""
        most = self.settings.groups_max_bytes
        if more <= 0:
            return True
        if self.kept_bytes + more > most:
            return False
        payer = self.payer(group_id, principal)
        charged = self.owners.charged_to(payer) + self.live.owners.charged_to(payer)
        is_alone = payer == NOBODY and not self.owners.held and not self.live.owners.held
        return is_alone or charged + more <= self.settings.share_of(most)

    def weigh(self, group_id: str) -> None:
        """Recount the bytes of a group after a change."""
        generation, consumers = self.generations.get(group_id), self.consumers.get(group_id)
        configs, share = self.configs.get(group_id), self.shares.get(group_id)
        size = 0 if generation is None else generation.ByteSize()
        if consumers is not None:
            size += SIZE_OF_NAME + len(group_id) + consumers.metadata_size
            size += SIZE_OF_NAME * len(consumers.members)
        if share is not None:
            size += SIZE_OF_NAME + len(group_id) + share.group.metadata_size + share.size
            size += SIZE_OF_NAME * len(share.group.members)
        if (streams := self.streams.get(group_id)) is not None:
            size += SIZE_OF_NAME + len(group_id) + streams.size
            size += SIZE_OF_NAME * len(streams.members)
        if configs is not None:
            size += SIZE_OF_NAME + len(group_id) + sum(map(len, configs.values()))
        more = size - self.sizes.pop(group_id, 0)
        self.size += more
        self.owners.charge(group_id, more)
        if size:
            self.sizes[group_id] = size
        self.live.weigh(group_id)

    # For replay.

    def keep_generation(self, generation: GroupGeneration) -> None:
        """Store the latest generation of a group, which is a classic group from now on."""
        group_id = generation.group_id
        self.generations[group_id] = generation
        self.consumers.pop(group_id, None)
        self.live_consumers.pop(group_id, None)
        self.streams.pop(group_id, None)
        self.live_streams.pop(group_id, None)
        self.weigh(group_id)
        if group_id in self.live.groups:
            return
        # The members' sessions begin when the group is first used or at a tick, not when the journal is read.
        if generation.members:
            self.live.asleep.add(group_id)
        else:
            self.live.asleep.discard(group_id)

    def take_step(self, step: ConsumerGroupStep) -> None:
        """Apply a step to a group, which is a consumer group from now on."""
        group = self.consumers.get(step.group_id)
        if group is None:
            group = self.consumers[step.group_id] = ConsumerGroup(group_id=step.group_id)
            self.generations.pop(step.group_id, None)
            self.live.groups.pop(step.group_id, None)
            self.live.asleep.discard(step.group_id)
        group.apply(step)
        self.weigh(step.group_id)

    def take_share_step(self, step: ConsumerGroupStep) -> None:
        """Apply a step to the members of a share group, which is created if necessary."""
        share = self.shares.get(step.group_id)
        if share is None:
            share = ShareGroup(ConsumerGroup(group_id=step.group_id))
            self.shares[step.group_id] = share
        share.group.apply(step)
        self.weigh(step.group_id)

    def take_streams_step(self, step: StreamsGroupStep) -> None:
        """Apply a step to a group, which is a streams group from now on."""
        group = self.streams.get(step.group_id)
        if group is None:
            group = self.streams[step.group_id] = StreamsGroup(group_id=step.group_id)
            self.generations.pop(step.group_id, None)
            self.live.groups.pop(step.group_id, None)
            self.live.asleep.discard(step.group_id)
        group.apply(step)
        self.weigh(step.group_id)

    def take_records_step(self, step: SharePartitionsStep) -> None:
        share = self.shares[step.group_id]
        share.apply(step.partitions)
        self.watch(step.group_id)
        self.weigh(step.group_id)

    def watch(self, group_id: str) -> None:
        """Note when a share group's first lock ends, and whether its records wait for the dead-letter queue."""
        share = self.shares.get(group_id)
        partitions = share.partitions.values() if share is not None else ()
        if any(each.has_dead_letters for each in partitions):
            self.dying.add(group_id)
        else:
            self.dying.discard(group_id)
            self.buriers.pop(group_id, None)
        ends = [at_ms for each in partitions if (at_ms := each.next_expiry_ms) is not None]
        if ends:
            self.locks.set(group_id, min(ends))
        else:
            self.locks.discard(group_id)

    def set_configs(self, group: GroupConfigs) -> None:
        if group.configs:
            self.configs[group.group_id] = dict(group.configs)
        else:
            self.configs.pop(group.group_id, None)
        self.weigh(group.group_id)

    def forget(self, group_id: str) -> None:
        """Remove a group of any kind, but keep its committed offsets."""
        self.generations.pop(group_id, None)
        self.consumers.pop(group_id, None)
        self.shares.pop(group_id, None)
        self.streams.pop(group_id, None)
        self.watch(group_id)
        self.live_consumers.pop(group_id, None)
        self.live_streams.pop(group_id, None)
        self.live.groups.pop(group_id, None)
        self.live.asleep.discard(group_id)
        self.weigh(group_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or drop a producer's pending offsets when the outcome is replayed."""
        self.offsets.end_transaction(producer_id, committed)

    def forget_topics(self, names: Mapping[bytes, str], now_ms: int) -> None:
        """Drop all offsets and share partitions of deleted topics, when the deletion is replayed (S6)."""
        self.offsets.forget_topics(names, now_ms)
        for group_id, share in self.shares.items():
            if share.forget_topics(names.keys()):
                self.watch(group_id)
                self.weigh(group_id)

    def hold_back(self, now_ms: int) -> None:
        """Move times after `now_ms` to `now_ms`, because the clock was set back."""
        for generation in self.generations.values():
            generation.written_at_ms = min(generation.written_at_ms, now_ms)
        self.offsets.hold_back(now_ms)
        self.locks = Deadlines()
        for group_id, share in self.shares.items():
            longest_ms = self.number(group_id, RECORD_LOCK_DURATION)
            for partition in share.partitions.values():
                partition.hold_back(now_ms + longest_ms)
            self.watch(group_id)

    # For replay and for decisions.

    def forget_token(self, token: int) -> None:
        """Forget a parked command whose caller is no longer waiting. Its member remains until its session ends."""
        self.live.parked.discard(token)

    def exists(self, group_id: str) -> bool:
        """Whether a group has members, a journalled generation or offsets."""
        return (
            group_id in self.live.groups
            or group_id in self.generations
            or self.is_modern(group_id)
            or self.offsets.has_group(group_id)
        )

    def is_modern(self, group_id: str) -> bool:
        return group_id in self.consumers or group_id in self.shares or group_id in self.streams

    def members_of(self, group_id: str) -> Collection[str]:
        share = self.shares.get(group_id)
        consumer = self.consumers.get(group_id) if share is None else share.group
        found = consumer or self.streams.get(group_id)
        return () if found is None else found.members.keys()

    def group_ids(self) -> set[str]:
        modern = {*self.consumers, *self.shares, *self.streams}
        return {*self.live.groups, *self.generations, *modern, *self.offsets.group_ids()}

    def find(self, group_id: str, now_ms: int) -> LiveGroup | None:
        """Return a classic group, loading its generation if necessary, or None if it does not exist."""
        is_live = group_id in self.live.groups
        if is_live or (not self.is_modern(group_id) and self.exists(group_id)):
            return self.open(group_id, now_ms)
        return None

    def open(self, group_id: str, now_ms: int) -> LiveGroup:
        """Return a classic group, loading its generation or creating it if necessary."""
        group = self.live.groups.get(group_id)
        if group is None:
            generation = self.generations.get(group_id)
            if generation is None:
                group = LiveGroup(group_id=group_id)
            else:
                group = LiveGroup.from_generation(generation, now_ms)
            group.moved_ms = self.live.moved_ms
            self.live.groups[group_id] = group
            self.live.owners.own(group_id, self.owners.of.get(group_id, NOBODY))
            self.live.asleep.discard(group_id)
        group.settle(self.live.moved_ms)
        return group

    def open_consumer(self, group: ConsumerGroup, now_ms: int) -> LiveConsumerGroup:
        """Return a consumer or share group's deadlines, in full if the group was restored from the journal."""
        live = self.live_consumers.get(group.group_id)
        if live is None:
            timeout_ms = self.session_timeout_ms(group.group_id)
            live = LiveConsumerGroup.wake(group, timeout_ms, now_ms)
            live.moved_ms = self.live.moved_ms
            self.live_consumers[group.group_id] = live
        live.settle(self.live.moved_ms)
        return live

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of a consumer or share group in milliseconds."""
        if group_id in self.shares:
            return self.number(group_id, SHARE_SESSION_TIMEOUT)
        return self.consumer_session_timeout_ms(group_id)

    def config(self, group_id: str, name: str) -> str:
        """Return a config of a group, or its default."""
        return self.configs.get(group_id, {}).get(name, GROUP_CONFIGS[name].default)

    def number(self, group_id: str, name: str) -> int:
        return int(self.config(group_id, name))

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout for members with the consumer protocol, in milliseconds."""
        own = self.configs.get(group_id, {}).get(SESSION_TIMEOUT)
        return self.settings.consumer_session_timeout_ms if own is None else int(own)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval for members with the consumer protocol, in milliseconds."""
        own = self.configs.get(group_id, {}).get(HEARTBEAT_INTERVAL)
        return self.settings.consumer_heartbeat_interval_ms if own is None else int(own)

    def pieces(self) -> Iterator[GroupsSnapshot]:
        """Yield all durable state as messages that form a snapshot; equal states yield equal messages."""
        for group_id, principal in sorted(self.owners.of.items()):
            yield GroupsSnapshot(owners={group_id: principal})
        for _, generation in sorted(self.generations.items()):
            yield GroupsSnapshot(generations=[generation])
        for _, group in sorted(self.consumers.items()):
            yield GroupsSnapshot(consumer_groups=[group.to_step()])
        for _, share in sorted(self.shares.items()):
            yield GroupsSnapshot(share_groups=[share.group.to_step()])
            for step in share.pieces():
                yield GroupsSnapshot(share_partitions=[step])
        for _, streams in sorted(self.streams.items()):
            yield GroupsSnapshot(streams_groups=[streams.to_step()])
        for group_id, configs in sorted(self.configs.items()):
            yield GroupsSnapshot(configs=[GroupConfigs(group_id=group_id, configs=configs)])
        yield from self.offsets.pieces()

    def load(self, piece: GroupsSnapshot) -> None:
        """Add a piece of a snapshot. Session timeouts restart on a group's first use, or in the first tick (S26)."""
        for group_id, principal in piece.owners.items():
            self.owners.own(group_id, principal)
        self.offsets.load(piece)
        for generation in piece.generations:
            self.keep_generation(generation)
        for step in piece.consumer_groups:
            self.take_step(step)
        for step in piece.share_groups:
            self.take_share_step(step)
        for streams in piece.streams_groups:
            self.take_streams_step(streams)
        for records in piece.share_partitions:
            self.take_records_step(records)
        for group in piece.configs:
            self.set_configs(group)
