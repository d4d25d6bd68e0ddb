"""The driver of a compaction: gets plans from the control plane, has ranges rewritten, and swaps them unit by unit."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, count, islice
from typing import Final

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PlanCompaction
from lacuna.pipeline.compaction.committing import PlanRun, UnitOutcome, commit
from lacuna.pipeline.compaction.here import run_here
from lacuna.pipeline.compaction.planning import (
    FoundRange,
    PlannedRange,
    Unit,
    fitting_task_bytes,
    make_units,
)
from lacuna.pipeline.compaction.report import (
    CompactionReport,
    Sizes,
    Trouble,
    changes,
    sum_work,
)
from lacuna.pipeline.compaction.rewriting import MAX_ATTEMPTS
from lacuna.pipeline.compaction.settings import CompactionSettings
from lacuna.pipeline.control import JobClient, check
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.holding import JobHold
from lacuna.pipeline.hot import HotKey, put_into, with_copies
from lacuna.pipeline.stores import check_store, shared_store
from lacuna.pipeline.workers import Progress, Workers

#: Attempts in this process are numbered from here, so as not to collide with Spark's, which start at 0.
_FIRST_LOCAL_ATTEMPT: Final = MAX_ATTEMPTS // 2
#: The maximum number of partitions in a request to the control plane.
_PARTITIONS_AT_ONCE: Final = 1_000

Topics = Mapping[PartitionKey, str]


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """The ranges to rewrite, planned at the control plane's time `now_ms`, and cut for tasks that read `task_bytes`.

    Partitions in `left_out` have not been examined.
    """

    now_ms: int
    task_bytes: int
    ranges: Sequence[PlannedRange]
    left_out: Sequence[PartitionKey]


@dataclass(frozen=True, slots=True)
class Found:
    """The ranges that the control plane found worth rewriting, not yet cut."""

    now_ms: int
    ranges: Sequence[FoundRange]
    left_out: Sequence[PartitionKey]

    def hot(self) -> Iterator[HotKey]:
        return chain.from_iterable(each.hot() for each in self.ranges)


class Compaction:
    """Compacts partitions of one cluster; `run` may be called repeatedly.

    `workers` runs the tasks: on Spark if there is enough to read, and otherwise in this process.
    """

    def __init__(
        self,
        control: JobClient,
        store_url: str,
        settings: CompactionSettings,
        workers: Workers,
        progress: Progress | None = None,
    ) -> None:
        self._control = control
        self._store_url = store_url
        self._settings = settings
        self._workers = workers
        self._attempts = count(_FIRST_LOCAL_ATTEMPT)
        self._rewritten_bytes = 0
        self._progress = progress or Progress()
        check_store(store_url, control.cluster_id)

    def plan(self, topics: Sequence[str] = ()) -> list[RewritePlan]:
        """Returns the plans that a run would start with, and changes nothing. Raises the same errors as `run`."""
        found: list[RewritePlan] = []
        waiting = deque(partitions_of(self._control, topics).items())
        while waiting:
            group = _next_group(waiting)
            plan = self._plan(self._find(group, {}))
            found.append(plan)
            waiting.extend((key, group[key]) for key in plan.left_out if plan.ranges)
        return found

    def run(self, topics: Sequence[str] = ()) -> CompactionReport:
        """Compacts the topics that match these names or patterns (default: all) until nothing is left to compact.

        Raises PipelineError, ControlPlaneUnavailable, CommandRefused, and Spark's errors. After an error, ranges that
        have already been swapped stay swapped; the others are unchanged.
        """
        started = time.monotonic()
        partitions = partitions_of(self._control, topics)
        count = len(partitions)
        self._progress.stage(f"checking {count} partition{'s' * (count != 1)}")
        before = self._sizes(partitions)
        with JobHold(self._control) as hold:
            outcomes = list(self._rounds(partitions, before, hold))
        after = self._sizes(partitions)
        by_topic, total = changes(set(partitions.values()), before, after)
        return CompactionReport(
            topics=by_topic,
            total=total,
            work=replace(
                sum_work(outcome.work for outcome in outcomes),
                partitions=len({found.key for outcome in outcomes for found in outcome.swapped}),
            ),
            refused=_sorted({each for outcome in outcomes for each in outcome.refused}),
            failed=_sorted({each for outcome in outcomes for each in outcome.failed}),
            seconds=time.monotonic() - started,
        )

    def _rounds(self, partitions: Topics, before: Sizes, hold: JobHold) -> Iterator[UnitOutcome]:
        """Compacts the partitions in groups, and yields the outcome of each unit.

        A partition is planned again while it has more to compact, or if a swap was rejected; rejections that lead to a
        retry are left out of the outcomes. Ranges after a damaged one are planned in this run as well, unless they are
        cleaned by key: the older values in the damaged range would then count as cleaned.
        """
        waiting = deque(partitions.items())
        reached: dict[PartitionKey, int] = {}
        passed: dict[PartitionKey, int] = {}
        refusals: Counter[PartitionKey] = Counter()
        while waiting:
            group = _next_group(waiting)
            find = partial(self._find, group, reached if self._settings.rewrites_all else passed)
            put = put_into(shared_store(self._store_url))
            plan = self._plan(with_copies(self._control, put, find, Found.hot))
            ends = {found.key: found.end_offset for found in plan.ranges}  # of the last ranges
            stuck = {key for key, end in ends.items() if end <= reached.get(key, -1)}
            reached.update(ends)
            ranges = [
                found for found in self._worth_it(plan.ranges, before) if found.key not in stuck
            ]
            waiting.extendleft((key, group[key]) for key in plan.left_out if plan.ranges)
            may_come_again = self._retried(ranges, refusals)
            again: set[PartitionKey] = set()
            stale: set[PartitionKey] = set()
            for outcome in self._rewrite(make_units(ranges, plan.task_bytes), plan, hold):
                damaged = [found for found in outcome.damaged if not found.is_cleaned]
                for found in damaged:
                    passed[found.key] = max(passed.get(found.key, 0), found.end_offset)
                again.update(found.key for found in (*outcome.swapped, *damaged) if found.has_more)
                stale.update(found.key for found in outcome.stale)
                yield outcome.without_refusals(may_come_again)
            refusals.update(stale)
            for key in stale & may_come_again:
                reached.pop(key, None)
                passed.pop(key, None)
            waiting.extend((key, group[key]) for key in sorted(again | stale & may_come_again))

    def _retried(
        self, ranges: Sequence[PlannedRange], refusals: Mapping[PartitionKey, int]
    ) -> set[PartitionKey]:
        """Returns the partitions to plan again if they are rejected now.

        With `rewrites_all`, these are only the partitions with a single range, for which a rejection discards all work.
        """
        settings = self._settings
        pieces = Counter(found.key for found in ranges)
        return {
            key
            for key, count in pieces.items()
            if refusals.get(key, 0) + 1 < settings.attempts
            and (count == 1 or not settings.rewrites_all)
        }

    def _worth_it(self, ranges: Sequence[PlannedRange], before: Sizes) -> Iterator[PlannedRange]:
        settings = self._settings
        waste: dict[PartitionKey, float] = {}
        for found in ranges:
            part = found.waste(*before.of_partition(found.key), settings.small_bytes)
            waste[found.key] = waste.get(found.key, 0.0) + part
        for found in ranges:
            if waste[found.key] >= settings.threshold:
                yield found

    def _find(self, group: Topics, reached: Mapping[PartitionKey, int]) -> Found:
        settings = self._settings
        request = PlanCompaction(
            partitions=[
                TopicPartition(topic_id=topic_id, partition=partition)
                for topic_id, partition in group
            ],
            small_bytes=settings.small_bytes,
            rewrites_all=settings.rewrites_all,
            max_extents=settings.max_extents,
            min_age_ms=settings.min_age_ms,
            from_offsets=[reached.get(key, 0) for key in group],
            is_for_swap=True,
        )
        reply = self._control.call(Command(plan_compaction=request)).compaction_plan
        check(reply.error_code, "a plan")
        now_ms = reply.planned_at_ms
        found = [
            FoundRange(group[each.partition.topic_id, each.partition.partition], each, now_ms)
            for each in reply.ranges
        ]
        return Found(now_ms, found, [(each.topic_id, each.partition) for each in reply.left_out])

    def _plan(self, found: Found) -> RewritePlan:
        live_bytes = sum(each.live_bytes for each in found.ranges)
        task_bytes = fitting_task_bytes(live_bytes, self._settings.task_bytes)
        ranges = [piece for each in found.ranges for piece in each.pieces(task_bytes)]
        return RewritePlan(found.now_ms, task_bytes, ranges, found.left_out)

    def _rewrite(
        self, units: Sequence[Unit], plan: RewritePlan, hold: JobHold
    ) -> Iterator[UnitOutcome]:
        self._progress.expect(sum(unit.live_bytes for unit in units))
        for unit in units:
            if not unit.tasks:
                yield commit(self._control, unit, hold.lease_id, [])
        units = [unit for unit in units if unit.tasks]
        if not units:
            return
        self._rewritten_bytes += sum(unit.live_bytes for unit in units)
        for unit, outcome in self._run(units, plan.now_ms, hold):
            self._progress.advance(unit.live_bytes)
            yield outcome

    def _run(
        self, units: Sequence[Unit], now_ms: int, hold: JobHold
    ) -> Iterator[tuple[Unit, UnitOutcome]]:
        plan = PlanRun(self._control, hold, self._store_url, self._settings.rewrite, now_ms)
        spark = self._workers.spark_for(self._rewritten_bytes)
        if spark is None:
            return run_here(plan, units, self._attempts)
        from lacuna.pipeline.compaction.running import UnitRunner

        return UnitRunner(spark, plan).run(units)

    def _sizes(self, partitions: Topics) -> Sizes:
        """Returns the sizes of the partitions that still exist; topics may have been deleted in the meantime."""
        sizes = Sizes()
        keys = iter(partitions)
        while some := list(islice(keys, _PARTITIONS_AT_ONCE)):
            sizes.add(self._logs(some))
        return sizes

    def _logs(self, keys: Sequence[PartitionKey]) -> list[PartitionLog]:
        try:
            return self._control.partition_logs(keys)
        except StaleMetadataError:
            known = partitions_of(self._control)
            left = [key for key in keys if key in known]
            if len(left) == len(keys):
                raise
            return self._logs(left)


def partitions_of(control: JobClient, topics: Sequence[str] = ()) -> dict[PartitionKey, str]:
    """Returns the partitions of the topics that match these names or shell patterns, each with its topic's name.

    An empty `topics` selects all. Raises PipelineError for a name or pattern that matches nothing.
    """
    known = control.topics()
    for wanted in topics:
        if not any(fnmatchcase(name, wanted) for name in known):
            raise PipelineError(
                f"no topic{control.whose} matches {wanted}: `lacuna topics list` shows the topics that exist"
            )
    return {
        (topic.topic_id, partition): name
        for name, topic in sorted(known.items())
        if not topics or any(fnmatchcase(name, wanted) for wanted in topics)
        for partition in range(topic.partition_count)
    }


def _next_group(waiting: "deque[tuple[PartitionKey, str]]") -> dict[PartitionKey, str]:
    return dict(waiting.popleft() for _ in range(min(len(waiting), _PARTITIONS_AT_ONCE)))


def _sorted(troubles: Iterable[Trouble]) -> list[Trouble]:
    return sorted(troubles, key=lambda each: (each.topic, each.partition, each.reason))


def watch(
    compaction: Compaction,
    topics: Sequence[str],
    interval: float,
    on_outage: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CompactionReport]:
    """Runs a compaction repeatedly, with pauses of `interval` seconds, and yields each report.

    If the control plane cannot be reached in a later run, even for so long that the run loses its lease, `on_outage`
    receives the message, and the next run begins after the pause. All other errors, and any error in the first run, are
    raised as by `Compaction.run`.
    """
    yield compaction.run(topics)
    while True:
        sleep(interval)
        try:
            report = compaction.run(topics)
        except (ControlPlaneUnavailable, StaleMetadataError) as error:
            on_outage(str(error))
            continue
        yield report
