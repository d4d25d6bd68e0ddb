"""Tests tasks without Spark: a task can be repeated any number of times, and holds only a block and a segment."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from lacuna.logstore.segments.paths import lease_prefix
from lacuna.pipeline.compaction.committing import prepare_swap
from lacuna.pipeline.compaction.planning import make_units
from lacuna.pipeline.compaction.rewriting import RewriteTask, TaskResult, rewrite
from lacuna.pipeline.compaction.settings import RewriteSettings
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.holding import JobHold
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.logstore.segments.samples import check_segment
from tests.pipeline.compaction.conftest import Compactor
from tests.pipeline.conftest import control_of

MEBIBYTE = 1 << 20


@pytest.fixture
def control(cluster: Cluster) -> Iterator[JobClient]:
    with control_of(cluster) as found:
        yield found


def _fill(cluster: Cluster, name: str, partitions: int) -> str:
    topic = cluster.create_topic(name, partitions)
    chance = Random(name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(40):
        producer.produce(topic, chance.randbytes(60_000), partition=number % partitions)
        producer.flush(60)
    return topic


def _run(cluster: Cluster, task: RewriteTask, attempt: int) -> TaskResult:
    return rewrite(task, shared_store(cluster.store_url), attempt)


def test_attempts_write_beside_each_other_and_one_is_swapped_in(
    cluster: Cluster, control: JobClient
) -> None:
    """The output of a retry or speculative copy is complete, unreferenced, and harmless."""
    topic = _fill(cluster, "attempts", 2)
    compaction = Compactor(cluster, None).job(control)  # type: ignore[arg-type]
    (plan,) = compaction.plan([topic])
    (unit,) = make_units(plan.ranges, 1 << 40)
    with JobHold(control) as hold:
        task = RewriteTask(
            store_url=cluster.store_url,
            cluster_id=control.cluster_id,
            lease_id=hold.lease_id,
            settings=RewriteSettings(segment_bytes=MEBIBYTE),
            shares=unit.tasks[0],
        )
        results = [_run(cluster, task, attempt) for attempt in (1, 2)]
        numbers = [{sequence for sequence, _ in result.segments} for result in results]
        assert not numbers[0] & numbers[1]
        with pytest.raises(PipelineError, match="already exists"):
            _run(cluster, task, 1)
        prepared = prepare_swap(unit, hold.lease_id, results[1:])
    assert {each.segment.sequence for each in prepared.command.segments} == numbers[1]
    assert not prepared.errors


def test_segments_are_as_large_as_asked_and_hold_several_partitions(
    cluster: Cluster, control: JobClient
) -> None:
    topic = _fill(cluster, "several", 4)
    (plan,) = Compactor(cluster, None).job(control).plan([topic])  # type: ignore[arg-type]
    (unit,) = make_units(plan.ranges, 1 << 40)
    with JobHold(control) as hold:
        task = RewriteTask(
            store_url=cluster.store_url,
            cluster_id=control.cluster_id,
            lease_id=hold.lease_id,
            settings=RewriteSettings(segment_bytes=2 * MEBIBYTE, block_bytes=200_000),
            shares=unit.tasks[0],
        )
        result = _run(cluster, task, 5)
    assert len(result.segments) == result.puts == 2
    assert all(size <= 2 * MEBIBYTE for _, size in result.segments)
    objects = Path(cluster.data) / "objects"
    written = sorted((objects / lease_prefix(control.cluster_id, hold.lease_id)).rglob("*.seg"))
    footers = [check_segment(str(path.relative_to(objects)), path.read_bytes()) for path in written]
    assert [len(footer.slices) for footer in footers] == [3, 1]
