"""Tests which logs are rewritten, and what the results are."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka import admin as kafka_admin

from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.compaction import cleaning, cleaning_here
from lacuna.pipeline.compaction.report import metadata_of
from lacuna.pipeline.compaction.superseding import scan_task
from lacuna.pipeline.loading import load_blocks
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, Read, read_partition
from tests.pipeline.conftest import delete_records, transact

HOUR_MS = 3_600_000
#: At a time, where there are many transactions.
_PRODUCERS = 4
admin: Any = kafka_admin


def _produce(cluster: Cluster, topic: str, records: list[dict[str, Any]], **settings: Any) -> None:
    """Produce records without a transaction, each in a separate batch."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, **settings})
    for record in records:
        producer.produce(topic, partition=0, **record)
        producer.flush(60)


def _batches(cluster: Cluster, compactor: Compactor, topic: str) -> list[Any]:
    (log,) = compactor.logs(topic)
    with compactor.control() as control:
        cluster_id = control.cluster_id
    store = shared_store(cluster.store_url)
    blocks = load_blocks(store, cluster_id, log.pieces(0, log.high_watermark))
    return [batch for block in blocks for batch in read_batches(block.data)]


def test_s11_records_of_log_append_time_keep_their_times(timed: Compactor) -> None:
    """S11, S19: batches are joined only if they have the same append time."""
    cluster, compactor = timed.cluster, timed
    topic = cluster.create_topic("append", 1, {"message.timestamp.type": "LogAppendTime"})
    for _ in range(3):
        _produce(cluster, topic, [{"value": b"v" * 50, "headers": {"h": b"1", "n": None}}] * 3)
        cluster.advance(1000)
    before = read_partition(cluster, topic)
    assert len({record.timestamp for record in before}) >= 3
    assert not compactor.run(topic).failed
    assert read_partition(cluster, topic) == before


def test_s7_s13_a_log_start_in_the_middle_of_an_extent(
    cluster: Cluster, compactor: Compactor
) -> None:
    """S7, S13: records below the log start stay invisible, and the log start does not move."""
    topic = cluster.create_topic("start")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 200})
    for number in range(30):
        producer.produce(topic, b"%d" % number, partition=0)
        if number % 10 == 9:
            producer.flush(60)
    delete_records(cluster, topic, 15)
    before = read_partition(cluster, topic)
    assert [record.offset for record in before] == list(range(15, 30))
    assert not compactor.run(topic, rewrites_all=True).refused
    (log,) = compactor.logs(topic)
    assert (log.log_start_offset, len(log.extents)) == (15, 1)
    assert read_partition(cluster, topic) == before
    assert read_partition(cluster, topic, first=15) == before


def test_one_huge_partition_is_several_tasks(cluster: Cluster, compactor: Compactor) -> None:
    """The result is in offset order, whichever task finishes first."""
    topic, small = cluster.create_topic("huge"), cluster.create_topic("tiny")
    chance = Random(3)
    records = [{"value": chance.randbytes(50_000), "key": b"%d" % n} for n in range(120)]
    _produce(cluster, topic, records)
    _produce(cluster, small, [{"value": b"v"}] * 2)
    before = [read_partition(cluster, name) for name in (topic, small)]
    report = compactor.run(topic, small, task_bytes=1 << 20, segment_bytes=1 << 20)
    # Of whole extents, none larger than asked; one of them has the other topic, too.
    assert report.work.tasks == 6
    assert report.work.puts == report.total.after.objects == 6
    assert report.work.partitions == 2
    (log,) = compactor.logs(topic)
    assert sorted(log.extents.base_offsets) == list(log.extents.base_offsets)
    assert [read_partition(cluster, name) for name in (topic, small)] == before


def test_a_huge_partition_that_is_cleaned_by_key_is_several_tasks(
    cluster: Cluster, compactor: Compactor
) -> None:
    """All tasks share one set of keys, and each receives the superseded offsets in its range."""
    topic = cluster.create_topic("huge-keys", 1, {"cleanup.policy": "compact"})
    chance = Random(7)
    records = [{"value": chance.randbytes(50_000), "key": b"%d" % (n % 30)} for n in range(120)]
    _produce(cluster, topic, records)
    before = read_partition(cluster, topic)
    report = compactor.run(topic, task_bytes=1 << 20, segment_bytes=1 << 20)
    assert report.work.tasks == 6
    assert report.work.puts == report.total.after.objects == 2  # of 30 records, in the last tasks
    assert read_partition(cluster, topic) == before[-30:]


def test_s19_a_codec_is_changed(cluster: Cluster, compactor: Compactor) -> None:
    topic = cluster.create_topic("recoded")
    records = [{"value": b"%d " % number * 400} for number in range(40)]
    _produce(cluster, topic, records, **{"compression.type": "lz4"})
    before = read_partition(cluster, topic)
    compactor.run(topic)
    lz4 = _batches(cluster, compactor, topic)
    assert {batch.header.codec for batch in lz4} == {Codec.LZ4}
    report = compactor.run(topic, rewrites_all=True, codec=Codec.ZSTD, level=12, batch_bytes=16384)
    assert report.total.after.bytes < report.total.before.bytes
    zstd = _batches(cluster, compactor, topic)
    assert {batch.header.codec for batch in zstd} == {Codec.ZSTD}
    assert len(zstd) > len(lz4)
    assert read_partition(cluster, topic) == before


@pytest.mark.timeout(600)
@pytest.mark.parametrize("aborted", [200, pytest.param(2_000, marks=pytest.mark.slow)])
def test_metadata_does_not_know_how_many_transactions_aborted(
    cluster: Cluster, compactor: Compactor, aborted: int
) -> None:
    """The metadata has the same size with and without aborted transactions."""
    commits = [(True, [(b"k", b"%d" % number)]) for number in range(10)]
    aborts = [(False, [(b"k", b"x")])] * (aborted // 10 // _PRODUCERS)
    topics = [cluster.create_topic(f"{name}-{aborted}") for name in ("none", "many")]
    transact(cluster, topics[0], commits)

    def write(producer: int) -> None:
        own = [[commit] if producer == 0 else [] for commit in commits]
        name = {"transactional.id": f"{topics[1]}-{producer}"}
        given = [each for one in own for each in (*aborts, *one)]
        transact(cluster, topics[1], given, client=name)

    with ThreadPoolExecutor(_PRODUCERS) as pool:
        list(pool.map(write, range(_PRODUCERS)))
    grown = [metadata_of(compactor.logs(topic)[0]) for topic in topics]
    assert grown[1] > grown[0] * 2
    compactor.run(*topics)
    sizes = [metadata_of(compactor.logs(topic)[0]) for topic in topics]
    assert sizes[1] == sizes[0] < grown[0]
    assert len(read_partition(cluster, topics[1])) == 10


def test_what_is_aborted_whole_goes_without_a_task(cluster: Cluster, compactor: Compactor) -> None:
    """S17: nothing is read or written, and consumers skip the hole."""
    topic = cluster.create_topic("aborted")
    transact(cluster, topic, [(False, [(b"k", b"v" * 1000)] * 20)] * 3)
    report = compactor.run(topic)
    assert (report.work.partitions, report.work.tasks) == (1, 0)
    assert (report.work.puts, report.work.bytes_read) == (0, 0)
    assert report.total.after.bytes == 0 < report.work.aborted_bytes_not_read
    assert read_partition(cluster, topic) == []
    _produce(cluster, topic, [{"value": b"next"}])
    assert [record.value for record in read_partition(cluster, topic)] == [b"next"]


# Topics that are compacted by key, over time.


def _values(records: list[Read]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


def test_tombstones_stay_for_their_time_and_then_go(timed: Compactor) -> None:
    """KIP-534: delete.retention.ms counts from the first compaction that processed the tombstone."""
    cluster, compactor = timed.cluster, timed
    configs = {"cleanup.policy": "compact", "delete.retention.ms": str(HOUR_MS)}
    topic = cluster.create_topic("tombstones", 1, configs)
    _produce(cluster, topic, [{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"1"}])
    _produce(cluster, topic, [{"key": b"a", "value": None}])
    kept = [(b"b", b"1"), (b"a", None)]
    compactor.run(topic)
    assert _values(read_partition(cluster, topic)) == kept
    cluster.advance(HOUR_MS - 60_000)
    assert compactor.run(topic).work.tasks == 0
    assert _values(read_partition(cluster, topic)) == kept
    cluster.advance(61_000)
    compactor.run(topic)
    assert _values(read_partition(cluster, topic)) == [(b"b", b"1")]
    cluster.advance(2 * HOUR_MS)
    assert compactor.run(topic).work.tasks == 0


def test_young_records_are_not_compacted(timed: Compactor) -> None:
    """min.compaction.lag.ms protects them."""
    cluster, compactor = timed.cluster, timed
    configs = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR_MS)}
    topic = cluster.create_topic("lag", 1, configs)
    _produce(cluster, topic, [{"key": b"a", "value": b"%d" % number} for number in range(3)])
    assert compactor.run(topic).work.tasks == 0
    assert len(read_partition(cluster, topic)) == 3
    cluster.advance(2 * HOUR_MS)
    compactor.run(topic)
    assert _values(read_partition(cluster, topic)) == [(b"a", b"2")]


def test_records_without_a_key_stay(cluster: Cluster, compactor: Compactor) -> None:
    """They were written before the topic was compacted, and nothing can supersede them."""
    topic = cluster.create_topic("keyless")
    keyed = [{"key": b"a", "value": b"1"}, {"key": b"a", "value": b"2"}]
    _produce(cluster, topic, [{"value": b"first"}, keyed[0], {"value": b"second"}, keyed[1]])
    _alter(cluster, topic, "cleanup.policy", "compact")
    compactor.run(topic)
    values = [record.value for record in read_partition(cluster, topic)]
    assert values == [b"first", b"second", b"2"]


def _alter(cluster: Cluster, topic: str, name: str, value: str) -> None:
    change = admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
    resource = admin.ConfigResource(
        admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[change]
    )
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    client.incremental_alter_configs([resource])[resource].result(60)


# Damage.

#: Ten such values make a flush that is too large for a hot segment, so that its object is in the store.
LARGE: Final = 20_000


def _damage(cluster: Cluster, compactor: Compactor, topic: str) -> tuple[Piece, str]:
    """Damage one byte of the first extent, which has its own object. Return the extent and the object's key."""
    (log,) = compactor.logs(topic)
    piece = next(log.pieces(0, 1))
    with compactor.control() as control:
        key = piece.key(control.cluster_id)
    store = shared_store(cluster.store_url)
    data = bytearray(store.get_all(key))
    data[piece.position + piece.size // 2] ^= 1
    store.delete([key])
    store.put(key, [bytes(data)])
    return piece, key


def test_a_damaged_object_is_named_and_its_partition_left_as_it_is(
    compactor: Compactor, cluster: Cluster
) -> None:
    """One damaged byte prevents all swaps in that partition, but not in others."""
    topics = [cluster.create_topic(name) for name in ("sound", "broken")]
    chance = Random(4)
    for topic in topics:
        _produce(cluster, topic, [{"value": chance.randbytes(LARGE)} for _ in range(10)])
        compactor.run(topic, rewrites_all=True)  # an object of its own
    (log,) = compactor.logs("broken")
    piece, key = _damage(cluster, compactor, "broken")
    before = read_partition(cluster, "sound")
    report = compactor.run(*topics, rewrites_all=True, codec=Codec.ZSTD)
    (failed,) = report.failed
    assert (failed.topic, failed.partition) == ("broken", 0)
    assert key in failed.reason
    assert f"{piece.size} bytes at position {piece.position}" in failed.reason
    assert report.work.partitions == 1
    assert list(compactor.logs("broken")[0].extents.positions) == list(log.extents.positions)
    assert read_partition(cluster, "sound") == before


@pytest.mark.parametrize(("rewrites_all", "extents"), [(False, 4), (True, 5)])
def test_what_lies_behind_damage_is_compacted_in_the_same_run(
    compactor: Compactor, cluster: Cluster, rewrites_all: bool, extents: int
) -> None:
    """A plan does not cover the whole partition: only its first range remains unchanged."""
    topic = cluster.create_topic(f"behind-{rewrites_all}")
    chance = Random(7)
    _produce(cluster, topic, [{"value": chance.randbytes(LARGE)} for _ in range(10)])
    assert not compactor.run(topic, rewrites_all=True).refused  # an object of its own
    _produce(cluster, topic, [{"value": b"small"} for _ in range(6)])
    _damage(cluster, compactor, topic)
    report = compactor.run(topic, rewrites_all=rewrites_all, max_extents=3)
    (failed,) = report.failed
    assert (failed.topic, failed.partition) == (topic, 0)
    (log,) = compactor.logs(topic)
    assert len(log.extents) == extents  # three stay; of four behind them three are one, or all
    assert [record.value for record in read_partition(cluster, topic, first=10)] == [b"small"] * 6


def test_keys_that_could_not_be_read_fail_their_partition(
    compactor: Compactor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object is missing while keys are read and is back before values are read. Its keys are unknown, so its
    partition is left unchanged and reported as failed, and the next run cleans it.
    """
    topics = [cluster.create_topic(name) for name in ("all-keys", "some-keys")]
    chance = Random(6)
    for topic in topics:
        values = [chance.randbytes(LARGE) for _ in range(10)]
        _produce(cluster, topic, [{"key": b"a", "value": value} for value in values])
        compactor.run(topic, rewrites_all=True)  # an object of its own
        _alter(cluster, topic, "cleanup.policy", "compact")
    (log,) = compactor.logs("some-keys")
    with compactor.control() as control:
        key = next(log.pieces(0, 1)).key(control.cluster_id)
    url = cluster.store_url
    real = cleaning._scanner

    def without_it(scan: Any) -> Any:
        store = shared_store(url)
        data = bytes(store.get_all(key))
        store.delete([key])
        try:
            yield from scan
        finally:
            store.put(key, [data])

    monkeypatch.setattr(
        cleaning, "_scanner", lambda now_ms: lambda batches: without_it(real(now_ms)(batches))
    )
    monkeypatch.setattr(cleaning_here, "scan_task", lambda *task: without_it(scan_task(*task)))
    (failed,) = compactor.run(*topics).failed
    assert (failed.topic, failed.partition) == ("some-keys", 0)
    assert key in failed.reason
    assert [len(read_partition(cluster, topic)) for topic in topics] == [1, 10]
    monkeypatch.undo()
    assert not compactor.run(*topics).failed
    assert [len(read_partition(cluster, topic)) for topic in topics] == [1, 1]
