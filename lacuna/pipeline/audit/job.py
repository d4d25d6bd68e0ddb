"""The driver's part of an audit.

A live cluster changes during an audit, so findings are valid only because of the order of the steps:

 1. Take a pin, which protects live objects from collection.
 2. List the bucket.
 3. Read the logs. A listed object that no log refers to was unreferenced already, or has become so since.
 4. Ask the control plane about these objects.

An object that a log refers to must exist, whether or not it was listed. If it does not, it has been lost.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.segments import ForeignStoreError, SegmentId, segments_prefix
from lacuna.logstore.segments.marker import check_encryption
from lacuna.pipeline.audit.findings import Findings
from lacuna.pipeline.audit.hot import HotCopies
from lacuna.pipeline.audit.inventory import (
    Inventory,
    judge_unreferenced,
    take_inventory,
    unreferenced_of,
)
from lacuna.pipeline.audit.keys import compacted_offsets, count_keys
from lacuna.pipeline.audit.logs import check_log, check_outcomes
from lacuna.pipeline.audit.matching import PartitionName
from lacuna.pipeline.audit.objects import ObjectTask, TaskResult, check_listed, check_objects
from lacuna.pipeline.audit.ongoing import check_ongoing
from lacuna.pipeline.audit.picture import Sparse
from lacuna.pipeline.audit.report import KeyCounts, Read, Report, partition_reports
from lacuna.pipeline.audit.stored import check_marker_bytes, check_metadata
from lacuna.pipeline.audit.tables import Rows, table_of
from lacuna.pipeline.audit.tasks import TASK_BYTES, plan_tasks
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.holding import ReadHold
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.metadata import CONTROL, MetadataSource, open_metadata
from lacuna.pipeline.stores import shared_store
from lacuna.pipeline.workers import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many times the logs are read again if a topic is deleted in the meantime.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The scope of an audit. An empty `topics` covers all topics, and the bucket's other objects as well.

    `metadata` is "control" (the control plane) or "bucket" (a metadata snapshot, which needs no server). Without
    `reads_records`, records are not decompressed or parsed; without `reads_objects`, no object is read. `counts_keys`
    counts distinct keys, which requires Spark. Otherwise, Spark is used only to read `spark_from_bytes` bytes or more.
    A Spark task reads about `task_bytes` bytes.
    """

    topics: tuple[str, ...] = ()
    metadata: str = CONTROL
    reads_objects: bool = True
    reads_records: bool = True
    counts_keys: bool = False
    spark_from_bytes: int = 0
    task_bytes: int = TASK_BYTES


OpenSpark = Callable[[], "AbstractContextManager[SparkSession]"]
"""Called once there is something to read."""


def audit(
    location: ClusterLocation,
    options: AuditOptions,
    open_spark: OpenSpark | None,
    progress: Progress | None = None,
) -> Report:
    """Audits a cluster's bucket. Without `open_spark`, this process reads everything itself, but counts no keys.

    Raises PipelineError, ControlPlaneUnavailable, StoreMisconfiguredError, ForeignStoreError.
    """
    job = _Audit(location, options, progress or Progress())
    try:
        return job.run(open_spark)
    except ObjectStoreError as error:
        raise PipelineError(f"the bucket {location.store} cannot be read: {error}") from error
    finally:
        job.close()


class _Audit:
    def __init__(
        self, location: ClusterLocation, options: AuditOptions, progress: Progress
    ) -> None:
        self._location = location
        self._options = options
        self._progress = progress
        self._store = shared_store(location.store)
        self._findings = Findings(limit=10_000)
        self._remarks: list[str] = []
        self._exits = ExitStack()
        # Spark reads the keys from the bucket.
        self._hot = self._exits.enter_context(
            HotCopies(self._store, fills_bucket=options.counts_keys)
        )
        self._source: MetadataSource = open_metadata(location, options.metadata)
        self._exits.callback(self._source.close)

    def close(self) -> None:
        self._exits.close()

    def run(self, open_spark: OpenSpark | None) -> Report:
        begin = time.perf_counter()
        with self._pin() as hold:
            inventory = self._look()
            logs = self._logs(inventory)
            table = table_of(logs)
            self._progress.stage("metadata")
            unsettled = self._check_metadata(logs, table)
            read = Read(inventory=inventory)
            keys: dict[int, KeyCounts] = {}
            tasks, hot_tasks = self._tasks(inventory, logs, table, read)
            if not self._options.reads_objects:
                self._check_listed(tasks, self._store)
                self._check_listed(hot_tasks, self._hot.store)
            else:
                if not self._needs_spark(tasks):
                    open_spark = None
                with nullcontext() if open_spark is None else open_spark() as spark:
                    self._read(spark, tasks, hot_tasks, read)
                    if spark is not None and self._options.counts_keys:
                        keys = self._count_keys(spark, logs)
            if hold is not None:
                hold.check()
        return self._report(logs, read, keys, unsettled, time.perf_counter() - begin)

    # The bucket and the logs.

    def _pin(self) -> AbstractContextManager[ReadHold | None]:
        source = self._source
        return ReadHold(source) if isinstance(source, JobClient) else nullcontext()

    def _look(self) -> Inventory:
        self._progress.stage("listing")
        cluster_id = self._source.cluster_id
        check_encryption(self._store)
        marker = check_marker_bytes(self._store, cluster_id)
        inventory = take_inventory(self._store, cluster_id)
        if marker is not None and not inventory.segments:
            raise ForeignStoreError(
                f"the bucket {self._location.store} contains nothing under "
                f"{segments_prefix(cluster_id)}, and its marker names a different cluster or none: specify the "
                "bucket that belongs to this control plane"
            )
        if marker is not None:
            self._findings.add(marker)
        self._findings.add_all(inventory.findings)
        return inventory

    def _logs(self, inventory: Inventory) -> list[PartitionLog]:
        source = self._source
        for _ in range(_TRIES):
            keys = self._keys()
            read = partial(source.partition_logs, keys)
            try:
                if isinstance(source, JobClient):
                    return self._hot.logs(source, read, inventory)
                return read()
            except StaleMetadataError:
                continue  # a topic was deleted between these two calls
        raise StaleMetadataError(
            "topics are being deleted too quickly to read their partitions: try again, or choose "
            "topics with --topic"
        )

    def _keys(self) -> list[PartitionKey]:
        topics = self._source.topics()
        names = self._options.topics or sorted(topics)
        missing = [name for name in names if name not in topics]
        if missing:
            raise PipelineError(
                f"there is no topic {missing[0]!r}{self._source.whose}: `lacuna topics list` shows the topics that "
                "exist"
            )
        return [
            (topics[name].topic_id, number)
            for name in names
            for number in range(topics[name].partition_count)
        ]

    # Metadata.

    def _check_metadata(self, logs: Sequence[PartitionLog], table: Rows) -> int:
        for log in logs:
            self._findings.extend(check_log(log))
        self._findings.extend(check_outcomes(logs, table))
        if not isinstance(self._source, JobClient):
            return 0
        found, unsettled = check_ongoing(self._source, logs, table)
        self._findings.extend(found)
        return unsettled

    # Objects.

    def _tasks(
        self, inventory: Inventory, logs: Sequence[PartitionLog], table: Rows, read: Read
    ) -> tuple[list[ObjectTask], list[ObjectTask]]:
        left: list[tuple[SegmentId, int]] = []
        if not self._options.topics:
            left = unreferenced_of(inventory, table)
            if isinstance(self._source, JobClient):
                self._progress.stage("unreferenced objects")
                read.unreferenced = judge_unreferenced(
                    self._source, self._store, left, self._source.cluster_id, self._findings
                )
            elif left:
                self._remarks.append(
                    f"{len(left)} objects are not in the metadata snapshot: only the control plane "
                    "knows which of them are garbage"
                )
            if self._options.reads_objects:
                found, size = check_metadata(self._store, inventory.metadata)
                self._findings.add_all(found)
                read.bytes_read += size
                read.objects_checked += len(inventory.metadata) + 1
        names = {
            index: PartitionName(log.topic, log.topic_id, log.partition)
            for index, log in enumerate(logs)
        }
        task_bytes = self._options.task_bytes
        hot = table[:0]
        if isinstance(self._source, JobClient):
            table, hot = table.cut_at_hot()
        return (
            list(plan_tasks(inventory, table, left, names, task_bytes)),
            list(plan_tasks(inventory, hot, (), names, task_bytes)),
        )

    def _check_listed(self, tasks: Iterable[ObjectTask], store: ObjectStore) -> None:
        for task in tasks:
            self._findings.add_all(check_listed(store, self._source.cluster_id, task))

    def _needs_spark(self, tasks: Iterable[ObjectTask]) -> bool:
        size = sum(task.size for task in tasks)
        return self._options.counts_keys or size >= self._options.spark_from_bytes

    def _read(
        self,
        spark: "SparkSession | None",
        tasks: list[ObjectTask],
        hot_tasks: list[ObjectTask],
        read: Read,
    ) -> None:
        self._progress.stage("objects")
        self._progress.expect(sum(task.size for task in tasks))
        total = TaskResult(findings=Findings(limit=10_000))
        run = self._run_here if spark is None else partial(self._run, spark)
        for result in run(tasks) if tasks else ():
            total.add(result)
        for task in hot_tasks:
            total.add(self._checker()(self._hot.store, task))
        self._findings.add_all(total.findings)
        read.objects_checked += total.objects
        read.bytes_read += total.bytes_read
        read.unreferenced_batch_bytes = total.unreferenced_bytes
        read.task_seconds = total.seconds
        read.counts = total.counts
        read.sparse = _by_partition(total.sparse)

    def _run(self, spark: "SparkSession", tasks: list[ObjectTask]) -> Iterable[TaskResult]:
        from lacuna.pipeline.spark_tasks import run_tasks

        check, url = self._checker(), self._location.store
        results: dict[int, TaskResult] = {}

        def ended(number: int, result: TaskResult) -> None:
            results[number] = result
            self._progress.advance(tasks[number].size)

        run_tasks(spark.sparkContext, tasks, lambda task, _: check(shared_store(url), task), ended)
        return [results[number] for number in range(len(tasks))]

    def _run_here(self, tasks: list[ObjectTask]) -> Iterable[TaskResult]:
        check = self._checker()
        for task in tasks:
            yield check(self._store, task)
            self._progress.advance(task.size)

    def _checker(self) -> Callable[[ObjectStore, ObjectTask], TaskResult]:
        cluster_id, reads_records = self._source.cluster_id, self._options.reads_records
        return lambda store, task: check_objects(
            store, cluster_id, task, reads_records=reads_records
        )

    def _count_keys(
        self, spark: "SparkSession", logs: Sequence[PartitionLog]
    ) -> dict[int, KeyCounts]:
        """Counts keys, unless errors were found: counting reads everything again, and would fail on damage."""
        if self._findings.errors:
            self._remarks.append(
                "keys were not counted because the audit found errors: fix these first"
            )
            return {}
        self._progress.stage("keys")
        source = self._source
        compacted = compacted_offsets(source, logs) if isinstance(source, JobClient) else {}
        counted, found = count_keys(spark, self._location.store, source.cluster_id, logs, compacted)
        self._findings.extend(found)
        return counted

    def _report(
        self,
        logs: Sequence[PartitionLog],
        read: Read,
        keys: dict[int, KeyCounts],
        unsettled: int,
        seconds: float,
    ) -> Report:
        return Report(
            cluster_id=self._source.cluster_id,
            metadata=self._options.metadata,
            store=self._location.store,
            objects=read.inventory.objects,
            bytes=read.inventory.bytes,
            objects_checked=read.objects_checked,
            bytes_read=read.bytes_read,
            seconds=seconds,
            task_seconds=read.task_seconds,
            unreferenced_batch_bytes=read.unreferenced_batch_bytes,
            unreferenced=read.unreferenced,
            partitions=partition_reports(logs, read, self._findings.found, keys),
            findings=self._findings.found,
            errors_left_out=self._findings.errors_left_out,
            notes_left_out=self._findings.notes_left_out,
            unsettled=unsettled,
            remarks=self._remarks,
        )


def _by_partition(sparse: Sequence[int]) -> dict[int, list[Sparse]]:
    found: dict[int, list[Sparse]] = {}
    for index, *extent in zip(*[iter(sparse)] * 4, strict=True):
        found.setdefault(index, []).append(Sparse(*extent))
    for extents in found.values():
        extents.sort()
    return found
