"""Topics compacted by key, in passes and merges: compared with Kafka, and with damaged and changing logs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from lacuna.agent.housekeeping import CleanSettings, HousekeepingSettings, MergeSettings, cleaning
from lacuna.agent.housekeeping.cleaning import Cleaner, CleanReport
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.verbs import retention
from lacuna.logstore.objects import StoreUnavailableError
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.rewriting import KeyTable
from lacuna.logstore.segments.merge import merge_ranges
from lacuna.testing import Cluster
from tests.agent.housekeeping.test_housekeeping import NEVER, PARTS, housekeeping, merge_all, read
from tests.agent.housekeeping.test_set_aside import Stricken
from tests.golden.cleaning import PHASES, History, Player, load

MERGE = MergeSettings(min_extents=2, min_age_ms=0)
CLEAN = replace(
    PARTS,
    housekeeping=HousekeepingSettings(
        merge_interval_ms=NEVER,
        clean_interval_ms=NEVER,
        collect_interval_ms=NEVER,
        merge=MERGE,
        clean=CleanSettings(min_bytes=0),
    ),
)
#: The time that passes twice after each phase of a history: enough for tombstones that expire soon.
PHASE_MS = 20_000


@pytest.fixture
def store() -> Stricken:
    return Stricken()


@pytest.fixture
def cluster(store: Stricken) -> Iterator[Cluster]:
    """A cluster that merges, cleans and collects only on a test's request."""
    with Cluster(parts=CLEAN, open_store=lambda: store) as cluster:
        yield cluster


def cleaner(cluster: Cluster) -> Cleaner:
    return housekeeping(cluster).cleaner


def clean_all(cluster: Cluster) -> list[CleanReport]:
    """Clean until no partition is worth a pass."""
    found = []
    while report := cluster.run(cleaner(cluster).run_once()):
        found.append(report)
    return found


def write(cluster: Cluster, topic: str, *texts: str) -> None:
    """Write one flush for each text, such as "a1" (the key a) or "a-" (its tombstone)."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    now_ms = cluster.embedded.running.runtime.now_ms()
    for text in texts:
        value = None if text[1:] == "-" else text
        producer.produce(topic, value, text[0], timestamp=now_ms)
        assert producer.flush(60) == 0


def keyed(cluster: Cluster, topic: str) -> list[str]:
    """Return what a consumer reads, in the form of `write`."""
    return [
        f"{(key or b'').decode()}-" if value is None else value.decode()
        for _, key, value, _ in read(cluster, topic, "read_committed")
    ]


def partition(cluster: Cluster, topic: str) -> Partition:
    state = cluster.embedded.running.runtime.state
    return state.partitions[state.topics_by_name[topic].topic_id, 0]


# As Kafka does.


@pytest.fixture
def _retention_is_checked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RETENTION_CHECK_MS", PHASE_MS // 2)


def _play(cluster: Cluster, clean: Callable[[], object]) -> list[tuple[History, Sequence[Any]]]:
    """Return each golden history with the records that a Lacuna consumer reads after it."""
    histories = load()
    player = Player(cluster.bootstrap, histories, cluster.embedded.running.runtime.now_ms())
    for phase in range(PHASES):
        player.play(phase)
        cluster.advance(PHASE_MS)
        clean()
        cluster.advance(PHASE_MS)
        clean()
    return list(zip(histories, player.read(), strict=True))


@pytest.mark.slow
@pytest.mark.usefixtures("_retention_is_checked_often")
def test_passes_leave_what_kafkas_cleaner_leaves(cluster: Cluster) -> None:
    played = _play(cluster, lambda: clean_all(cluster))
    assert len(played) >= 20
    assert {each.name: each.reads for each, _ in played} == {
        each.name: reads for each, reads in played
    }


@pytest.mark.slow
@pytest.mark.usefixtures("_retention_is_checked_often")
def test_merges_and_passes_leave_what_kafkas_cleaner_leaves(cluster: Cluster) -> None:
    """Merges drop superseded records without regard to min.cleanable.dirty.ratio, which only bounds work."""

    def clean() -> None:
        merge_all(cluster)
        clean_all(cluster)

    played = [each for each in _play(cluster, clean) if "ratio" not in each[0].name]
    assert {each.name: each.reads for each, _ in played} == {
        each.name: reads for each, reads in played
    }


# What a pass does.

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def _without_room(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    monkeypatch.setattr(cleaner(cluster), "_new_table", lambda: _Small(keys))


class _Small:
    """A KeyTable that is full once it has `keys` keys."""

    def __init__(self, keys: int) -> None:
        self._table = KeyTable(1 << 20, bytes(16))
        self._keys = keys

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def note(self, batch: bytes, first_offset: int, end_offset: int) -> int:
        (header,) = [each.header for each in read_batches(batch)]
        if self._table.keys == self._keys and header.base_offset >= first_offset:
            return header.base_offset
        return self._table.note(batch, first_offset, end_offset)


def test_keys_that_do_not_fit_take_several_passes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic("t", configs=COMPACTED)
    write(cluster, topic, "a1", "b1", "c1", "a2", "d1", "b2", "e1", "a3")
    _without_room(cluster, monkeypatch, 3)
    passes = clean_all(cluster)
    assert [each.keys for each in passes] == [3, 3, 2]
    assert keyed(cluster, topic) == ["c1", "d1", "b2", "e1", "a3"]
    assert partition(cluster, topic).compacted_to == 8


def test_the_newest_record_is_read_at_its_offset_and_the_log_start_stays(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", configs=COMPACTED)
    write(cluster, topic, "a1", "a2", "b1", "a3")
    (report,) = clean_all(cluster)
    assert (report.superseded, report.tombstones, report.keys, report.failure) == (2, 0, 2, "")
    assert [row[0] for row in read(cluster, topic, "read_committed")] == [2, 3]
    found = partition(cluster, topic)
    assert (found.log_start_offset, found.vacated_to, found.high_watermark) == (0, 2, 4)
    metrics = cleaner(cluster).metrics
    assert (metrics.passes, metrics.passes_cut, metrics.superseded) == (1, 0, 2)
    assert metrics.bytes_read > metrics.bytes_written > 0
    assert clean_all(cluster) == []


def test_what_need_not_change_is_not_written_again(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", configs=COMPACTED)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for key in "abc":
        producer.produce(topic, bytes(300_000), key)
        assert producer.flush(60) == 0
    (report,) = clean_all(cluster)
    assert (report.superseded, report.bytes_written) == (0, 0)
    assert partition(cluster, topic).compacted_to == 3


@pytest.mark.slow
@pytest.mark.parametrize("what", ["missing", "damaged"])
def test_a_damaged_object_costs_its_records_only_and_revives_none(
    cluster: Cluster, store: Stricken, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.create_topic("t", configs=COMPACTED | {"delete.retention.ms": "0"})
    before = {info.key for info in store.list("")}
    write(cluster, topic, "a1", "b1", "b2", "c1", "b-", "a2", "a3")
    objects = [info.key for info in store.list("") if info.key not in before]
    setattr(store, what, {objects[2]})  # b2
    for _ in range(3):
        cluster.run(housekeeping(cluster).clean())
        cluster.advance(10)
    metrics = cleaner(cluster).metrics
    assert (metrics.passes, metrics.passes_cut) == (1, 1)
    assert housekeeping(cluster).set_aside()["cleaning"] == 1
    assert caplog.text.count("cleaning will not retry partition 0 of the topic") == 1
    assert partition(cluster, topic).compacted_to == 2
    setattr(store, what, set())
    assert keyed(cluster, topic) == ["b2", "c1", "b-", "a3"]
    cleaner(cluster).set_aside.discard(partition(cluster, topic).key)
    clean_all(cluster)
    assert keyed(cluster, topic) == ["c1", "a3"], "first b2 went, then its tombstone"


def test_a_store_that_is_away_ends_the_pass_and_the_next_one_goes_on(
    cluster: Cluster, store: Stricken, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic("t", configs=COMPACTED)
    write(cluster, topic, "a1", "a2")
    put = store.put

    def away(key: str, parts: Sequence[Any]) -> None:
        raise StoreUnavailableError("the test says so")

    monkeypatch.setattr(store, "put", away)
    with pytest.raises(StoreUnavailableError):
        cluster.run(cleaner(cluster).run_once())
    monkeypatch.setattr(store, "put", put)
    assert cleaner(cluster).metrics.memory_bytes == 0
    assert [each.superseded for each in clean_all(cluster)] == [1]
    assert keyed(cluster, topic) == ["a2"]


def test_a_topic_that_is_compacted_no_more_keeps_its_records(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy changes just before a pass swaps extents."""
    topic = cluster.create_topic("t", configs=COMPACTED)
    write(cluster, topic, "a1", "a2")
    found = cleaner(cluster)
    swap = found._swap

    async def altered(*given: Any) -> bool:
        state = cluster.embedded.running.runtime.state
        monkeypatch.setitem(state.topics_by_name[topic].configs, "cleanup.policy", "delete")
        return await swap(*given)

    monkeypatch.setattr(found, "_swap", altered)
    report = cluster.run(found.run_once())
    assert report is not None
    assert report.superseded == 0
    assert keyed(cluster, topic) == ["a1", "a2"]


def test_a_merge_leaves_out_what_it_supersedes_itself(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", configs=COMPACTED | {"min.compaction.lag.ms": "60000"})
    write(cluster, topic, "a1", "b1", "a2")
    cluster.advance(70_000)
    write(cluster, topic, "b-", "a3")
    cluster.run(housekeeping(cluster).merge())
    assert keyed(cluster, topic) == ["b1", "a2", "b-", "a3"], "young records supersede nothing"
    assert housekeeping(cluster).metrics.records_superseded == 1
    cluster.advance(70_000)
    write(cluster, topic, "c1")
    cluster.run(housekeeping(cluster).merge())
    assert keyed(cluster, topic) == ["b-", "a3", "c1"]


@pytest.mark.slow
def test_a_mistake_of_ours_costs_one_partition_only(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [cluster.create_topic(name, configs=COMPACTED) for name in ("t", "u")]
    for topic in topics:
        write(cluster, topic, "a1", "a2")
    real, calls = merge_ranges, []

    def mistaken(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise ZeroDivisionError
        return real(*given)

    monkeypatch.setattr(cleaning, "merge_ranges", mistaken)
    with pytest.raises(ZeroDivisionError):
        cluster.run(cleaner(cluster).run_once())
    assert len(clean_all(cluster)) == 1
    assert sorted(len(keyed(cluster, topic)) for topic in topics) == [1, 2]
