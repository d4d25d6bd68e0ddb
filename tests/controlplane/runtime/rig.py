"""A runtime on an in-memory journal, with a controllable clock and failures, and functions that build commands."""

import itertools
from collections.abc import Awaitable, Callable

from lacuna.controlplane.client import ControlClient, InProcessClient
from lacuna.controlplane.journal.journal import Journal, Snapshotter
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.shared.batches import COMMITTED_BATCH, SegmentSlice, commit_of, verdicts_of
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    OpenLease,
    RegisterAgent,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command, ControlPlaneStatus, Reply, Standby
from lacuna.controlplane.v1.groups_pb2 import (
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
)
from lacuna.controlplane.v1.log_pb2 import ReadPartitions, SegmentId
from tests.doubles.clock import ManualClock
from tests.doubles.journal import MemoryJournal

Connect = Callable[..., Awaitable[ControlClient]]


def await_members(state: State) -> None:
    """Kafka waits 3 s for members. The rig waits too, so that a group's first JoinGroup is parked."""
    state.groups.settings = GroupSettings(group_initial_rebalance_delay_ms=3_000)


def mistaken(*_: object) -> None:
    """Replaces a deciding function with one that fails."""
    raise RuntimeError("a mistake of ours")


async def nobody(_: str, __: Standby) -> ControlPlaneStatus | None:
    """Stands in for control planes that do not answer."""
    return None


def no_runtime(*_: object) -> Runtime:
    raise AssertionError("it does not lead")


class Rig:
    """A runtime on a journal. To restart it on the same journal, call `start` again after `stop`."""

    def __init__(
        self,
        journal: Journal | None = None,
        settings: RuntimeSettings | None = None,
        snapshotter: Snapshotter | None = None,
        snapshot_appends: int | None = None,
        confirm: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.memory = MemoryJournal("cluster")
        self.journal: Journal = journal or self.memory
        self.settings = settings or RuntimeSettings()
        self.snapshotter = snapshotter
        self.snapshot_appends = snapshot_appends
        self.confirm = confirm
        self.clock = ManualClock()
        self.fatal: list[BaseException] = []
        self._ids = itertools.count(1)
        self.runtime = self._new_runtime()

    def new_id(self) -> bytes:
        return next(self._ids).to_bytes(16, "big")

    def _new_runtime(self) -> Runtime:
        return Runtime(
            self.journal,
            self.clock,
            self.new_id,
            self.settings,
            snapshotter=self.snapshotter,
            snapshot_appends=self.snapshot_appends,
            confirm=self.confirm,
            prepare=await_members,
            on_fatal=self.fatal.append,
        )

    async def start(self) -> "Rig":
        await self.runtime.start()
        return self

    async def restart(self) -> None:
        await self.runtime.close()
        self.runtime = self._new_runtime()
        await self.runtime.start()

    @property
    def state(self) -> State:
        return self.runtime._state

    def high_watermark(self, topic_id: bytes, partition: int = 0) -> int:
        return self.state.partitions[topic_id, partition].high_watermark

    def let_go(self) -> None:
        """Stop holding appends."""
        self.memory.is_held = False
        self.memory.release()

    def client(self, **bounds: int) -> InProcessClient:
        return InProcessClient(self.runtime, **bounds)


_sequences = itertools.count(1)


def create_topic(name: str, partition_count: int = 1) -> Command:
    topic = CreateTopic(name=name, partition_count=partition_count)
    return Command(create_topics=CreateTopics(topics=[topic]))


async def created(client: ControlClient, name: str = "a", partition_count: int = 1) -> bytes:
    """Open a lease, which `commit` uses if it is the cluster's first one, and create a topic. Return its id."""
    await client.call(open_lease())
    reply = await client.call(create_topic(name, partition_count))
    return reply.topics_created.topics[0].topic_id


def open_lease(duration_ms: int = 3_600_000) -> Command:
    return Command(open_lease=OpenLease(duration_ms=duration_ms))


def segment_slice(
    key: tuple[bytes, int],
    *,
    count: int = 1,
    producer: tuple[int, int] = (-1, -1),
    base_sequence: int = -1,
    flags: int = 0,
) -> SegmentSlice:
    """Return a slice with one batch."""
    row = COMMITTED_BATCH.pack(0, 100, count, 1_700_000_000_000, *producer, base_sequence, flags)
    return SegmentSlice(key, row)


def commit(topic_id: bytes, *partitions: int) -> Command:
    """Return the commit of a segment under the first lease, with one record per partition (by default, partition 0)."""
    slices = [segment_slice((topic_id, partition)) for partition in partitions or (0,)]
    segment = SegmentId(lease_id=1, sequence=next(_sequences))
    return Command(commit_segment=commit_of(segment, 1000, slices))


def base_offset(reply: Reply) -> int:
    """Return the base offset of the first batch in a commit."""
    return verdicts_of(reply.segment_committed)[0].base_offsets[0]


def read(topic_id: bytes, partition: int = 0) -> Command:
    key = TopicPartition(topic_id=topic_id, partition=partition)
    return Command(read_partitions=ReadPartitions(partitions=[key]))


def heartbeat() -> Command:
    """Return a heartbeat for a group without a name. Answering it takes no record."""
    return Command(heartbeat=Heartbeat())


def refused() -> Command:
    """Return an agent registration without an address, which is rejected."""
    return Command(register_agent=RegisterAgent())


def join(group_id: str = "g") -> Command:
    """Return a join that is parked until the member is removed, because a group's first join waits for others."""
    return Command(
        join_group=JoinGroup(
            group_id=group_id,
            group_instance_id="x",
            protocol_type="consumer",
            protocols=[GroupProtocol(name="range")],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
        )
    )


def leave(group_id: str = "g") -> Command:
    """Return a command that removes the member from `join`, and thereby answers the join."""
    members = [LeavingMember(group_instance_id="x")]
    return Command(leave_group=LeaveGroup(group_id=group_id, members=members))
