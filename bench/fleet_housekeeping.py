"""A simulated fleet's merging and compaction, with real plans and swaps but without objects.

Plans follow Lacuna's own settings. A model of the plan's GETs determines the time between an agent's plan and its swap,
so that the fleet merges no more than real agents could.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench.fleet import TICK_MS, Agent, Fleet, Line, requests_of
from lacuna.agent.housekeeping.rewriting import live_pieces
from lacuna.agent.housekeeping.service import HousekeepingSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import (
    FLAG_TRUE_OFFSETS,
    LARGEST_EXTENT_BYTES,
)
from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.controlplane.v1.cluster_pb2 import OpenLease, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import (
    CompactionRange,
    Extents,
    ExtentSwap,
    PlanCompaction,
    PlanMerge,
    SwapExtents,
    SwapPartition,
)
from lacuna.logstore.objects.s3 import READS_AT_ONCE
from lacuna.pipeline.compaction.settings import CompactionSettings

#: The parts of the time from a plan to its swap: round trips to S3, and bytes read, merged and written.
GET_MS: Final = 30
PUT_MS: Final = 100
BYTES_A_MS: Final = 150_000
#: The Spark tasks that a compaction runs at once. Each task makes as many reads at once as an agent.
TASKS: Final = 16
#: `lacuna compact --watch` covers every partition once in its default interval.
COMPACTION_MS: Final = 600_000
COMPACTION_PAUSE_MS: Final = 1_000


@dataclass(slots=True)
class Rewritten:
    """The results of merging or compaction. `refused` counts partitions that changed before the swap."""

    swaps: int = 0
    partitions: int = 0
    refused: int = 0
    extents_before: int = 0
    extents_after: int = 0
    gets: int = 0
    puts: int = 0
    size: int = 0


class _Rewriter:
    def __init__(self, agent: Agent, done: Rewritten, segment_bytes: int, pause_ms: int) -> None:
        self.agent = agent
        self.line = agent.line
        self.done = done
        #: How long to wait after an empty plan.
        self.pause_ms = pause_ms
        self.due_ms = 0
        self.now_ms = 0
        self.rest_ms = 0
        self.tasks = 1
        self._segment_bytes = segment_bytes
        self._swap: SwapExtents | None = None
        self._is_waiting = False

    def step(self, now_ms: int) -> None:
        """Sends the next plan or swap if it is due."""
        self.now_ms = now_ms
        if self._is_waiting or now_ms < self.due_ms:
            return
        self._is_waiting = True
        if self._swap is None:
            self.line.ask(self.plan(), self._planned)
        else:
            self.line.ask(Command(swap_extents=self._swap), self._swapped)

    def plan(self) -> Command:
        raise NotImplementedError

    def parts(self, reply: Reply) -> Sequence[tuple[SwapPartition, list[Piece], int]]:
        """Returns, for each partition, the swap without its new extents, the live pieces, and the number of extents."""
        raise NotImplementedError

    def requests(self, groups: Sequence[list[Piece]]) -> Sequence[int]:
        """Returns the sizes of the GETs that read the pieces of all partitions."""
        return [size for pieces in groups for size in requests_of(pieces)]

    def _planned(self, reply: Reply) -> None:
        self._is_waiting = False
        parts = self.parts(reply)
        if not parts:
            self.due_ms = self.now_ms + self.pause_ms
            return
        segment = self.agent.lease_id, self.agent.next_sequence()
        position, swap = 0, SwapExtents()
        requests = self.requests([pieces for _, pieces, _ in parts])
        gets, read = len(requests), sum(requests)
        for partition, pieces, before in parts:
            extents = joined(pieces, segment, position, self.now_ms)
            partition.swap.extents.CopyFrom(extents)
            position += sum(extents.sizes)
            swap.partitions.append(partition)
            self.done.extents_before += before
            self.done.extents_after += len(extents.sizes)
        if position:
            new = swap.segments.add(object_size=position)
            new.segment.lease_id, new.segment.sequence = segment
        self.done.gets += gets
        self.done.puts += -(-position // self._segment_bytes)
        self.done.size += position
        self._swap = swap
        took = -(-gets // READS_AT_ONCE) * GET_MS + (read + position) // BYTES_A_MS
        took //= self.tasks
        self.due_ms = self.now_ms + took + (PUT_MS if position else TICK_MS)

    def _swapped(self, reply: Reply) -> None:
        self._is_waiting, self._swap = False, None
        self.due_ms = self.now_ms + self.rest_ms
        codes = reply.extents_swapped.error_codes
        self.done.swaps += 1
        self.done.partitions += len(codes)
        self.done.refused += sum(code != ErrorCode.NONE for code in codes)


class Merging(_Rewriter):
    """An agent's merging, as in agent/housekeeping/: one plan after another, with a pause after an empty one."""

    def __init__(self, agent: Agent, done: Rewritten, min_age_ms: int, first_ms: int) -> None:
        settings = HousekeepingSettings()
        super().__init__(agent, done, settings.merge.max_bytes, settings.merge_interval_ms)
        self._min_age_ms = min_age_ms
        self._merge = settings.merge
        self.due_ms = first_ms

    def plan(self) -> Command:
        merge = self._merge
        return Command(
            plan_merge=PlanMerge(
                lease_id=self.agent.lease_id,
                max_bytes=merge.max_bytes,
                small_bytes=merge.small_bytes,
                min_extents=merge.min_extents,
                min_age_ms=self._min_age_ms,
            )
        )

    def parts(self, reply: Reply) -> Sequence[tuple[SwapPartition, list[Piece], int]]:
        return _parts_of(reply.merge_plan.partitions)

    def requests(self, groups: Sequence[list[Piece]]) -> Sequence[int]:
        together = [piece for pieces in groups for piece in pieces]
        return requests_of(sorted(together, key=lambda piece: piece.place))


class Compaction(_Rewriter):
    """A job that compacts one partition after another, spread evenly over `COMPACTION_MS`."""

    def __init__(self, line: Line, done: Rewritten, keys: Sequence[TopicPartition]) -> None:
        self._settings = CompactionSettings()
        segment_bytes = self._settings.rewrite.segment_bytes
        super().__init__(Agent(line, 0), done, segment_bytes, COMPACTION_PAUSE_MS)
        self._keys = keys
        self._cursor = 0
        self._looked_ms = 0
        self.rest_ms = COMPACTION_PAUSE_MS
        self.tasks = TASKS

    def open(self) -> None:
        def settle(reply: Reply) -> None:
            self.agent.lease_id = reply.lease_opened.lease_id

        self.line.ask(Command(open_lease=OpenLease(duration_ms=COMPACTION_MS)), settle)

    def plan(self) -> Command:
        keys = self._keys
        passed_ms = self.now_ms - self._looked_ms if self._looked_ms else COMPACTION_PAUSE_MS
        self._looked_ms = self.now_ms
        count = max(1, round(len(keys) * passed_ms / COMPACTION_MS))
        wanted = [keys[(self._cursor + each) % len(keys)] for each in range(count)]
        self._cursor += count
        return Command(
            plan_compaction=PlanCompaction(
                partitions=wanted,
                small_bytes=self._settings.small_bytes,
                min_age_ms=self._settings.min_age_ms,
            )
        )

    def parts(self, reply: Reply) -> Sequence[tuple[SwapPartition, list[Piece], int]]:
        return _parts_of(reply.compaction_plan.ranges)


class Housekeeping:
    """The merging by all agents of a fleet, and a compaction job with a session of its own."""

    def __init__(self, fleet: Fleet, line: Line, min_age_ms: int, now_ms: int) -> None:
        pause_ms = HousekeepingSettings().merge_interval_ms
        self._merged, self._compacted = Rewritten(), Rewritten()
        self._mergings = [
            Merging(
                agent, self._merged, min_age_ms, now_ms + pause_ms * number // len(fleet.agents)
            )
            for number, agent in enumerate(fleet.agents)
        ]
        self._job = Compaction(line, self._compacted, fleet.keys)

    def open(self) -> None:
        self._job.open()

    def step(self, now_ms: int) -> None:
        for each in (*self._mergings, self._job):
            each.step(now_ms)

    def counts(self) -> dict[str, float]:
        both = (("merging", self._merged), ("compaction", self._compacted))
        return {
            f"{what}, {name}": value for what, done in both for name, value in asdict(done).items()
        }


def _parts_of(
    ranges: Iterable[CompactionRange],
) -> Sequence[tuple[SwapPartition, list[Piece], int]]:
    found = []
    for each in ranges:
        swap = SwapPartition(
            partition=each.partition,
            fence=each.fence,
            swap=ExtentSwap(first_offset=each.first_offset, end_offset=each.end_offset),
        )
        extents, live = live_pieces(each)
        found.append((swap, live, len(extents)))
    return found


def joined(
    pieces: Sequence[Piece], segment: tuple[int, int], position: int, now_ms: int
) -> Extents:
    """Joins pieces into extents as large as allowed, starting at `position` in the new object."""
    groups: list[list[Piece]] = []
    size = 0
    for piece in pieces:
        if not groups or size + piece.size > LARGEST_EXTENT_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.size
    extents = Extents()
    for group in groups:
        size = sum(piece.size for piece in group)
        extents.lease_ids.append(segment[0])
        extents.sequences.append(segment[1])
        extents.positions.append(position)
        extents.sizes.append(size)
        extents.base_offsets.append(group[0].base_offset)
        extents.next_offsets.append(group[-1].next_offset)
        extents.max_timestamps.append(now_ms)
        extents.producer_ids.append(-1)
        extents.producer_epochs.append(-1)
        extents.transactions.append(0)
        extents.flags.append(FLAG_TRUE_OFFSETS)
        position += size
    return extents
