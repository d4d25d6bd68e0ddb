"""Tests audits of a real cluster's bucket: intact, damaged in one place, or containing foreign objects."""

import random
from collections.abc import Callable

import pytest

from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.segments import (
    SegmentId,
    SliceInput,
    parse_segment_key,
    segment_key,
    write_segment,
)
from lacuna.logstore.segments.paths import (
    CLUSTER_MARKER_KEY,
    JOURNAL_MANIFEST_KEY,
    journal_append_key,
)
from lacuna.pipeline.audit import Finding, Kind, Report
from tests.pipeline.audit.conftest import Bucket

Damage = Callable[[str, bytes | bytearray | None], bytes]


def kinds(report: Report) -> set[Kind]:
    return {finding.kind for finding in report.findings}


def errors_in(report: Report, key: str) -> list[Finding]:
    return [finding for finding in report.errors if finding.key == key]


@pytest.mark.slow
@pytest.mark.parametrize("bucket", ["directory", "moto"], indirect=True)
def test_a_sound_bucket_has_no_finding_and_its_records_are_counted(bucket: Bucket) -> None:
    """Tests rules S14, S16 and S19."""
    for options in ({}, {"metadata": "bucket"}, {"reads_records": False}):
        report = bucket.audit(**options)
        assert report.findings == []
        assert report.is_sound
        assert report.unsettled == 0
        assert report.objects_checked == report.objects
        for each in report.partitions:
            name = each.topic, each.partition
            assert each.committed_records is not None
            assert each.compacted_records is not None
            assert each.committed_records + each.compacted_records == bucket.committed[name]
            assert each.log_start_offset == 0
            total = each.committed + each.aborted + each.compacted + each.undecided + each.holes
            assert total == each.high_watermark
            if options.get("reads_records", True):
                assert each.compacted == each.compacted_records
                assert each.aborted == each.aborted_records
    pictures = {(each.topic, each.partition): each.picture for each in report.partitions}
    assert set(pictures["merged", 0]) == {"M", ".", "C", "A"}
    assert set(pictures["plain", 1]) == {"C", "A"}
    assert set(pictures["times", 0]) == {"C"}


@pytest.mark.slow
def test_metadata_alone_reads_nothing(bucket: Bucket) -> None:
    before = bucket.store.metrics.gets
    report = bucket.audit(reads_objects=False)
    assert report.is_sound
    assert report.objects > 10
    assert bucket.store.metrics.gets <= before + 1  # the marker
    assert report.partitions[0].committed_records is None


@pytest.mark.slow
def test_one_topic_alone(bucket: Bucket) -> None:
    report = bucket.audit(topics=("times",))
    assert report.is_sound
    assert [each.topic for each in report.partitions] == ["times"]
    assert 0 < report.objects_checked < report.objects


@pytest.mark.slow
def test_a_wrong_byte_anywhere_in_any_object_is_found_and_located(
    bucket: Bucket, damaged: Damage
) -> None:
    rng = random.Random(5)
    keys = [info.key for info in bucket.store.list()]
    assert CLUSTER_MARKER_KEY in keys
    assert any("/metadata/" in key for key in keys)
    for key in rng.sample(keys, 6) + [key for key in keys if not key.endswith(".seg")]:
        data = bytearray(bucket.store.get_all(key))
        position = rng.randrange(len(data))
        sound = data[position]
        data[position] ^= rng.randrange(1, 256)
        damaged(key, data)
        report = bucket.audit()
        data[position] = sound
        bucket.replace(key, data)
        found = errors_in(report, key)
        assert len(found) == 1, (key, position, report.errors)
        assert len(report.errors) == 1
        assert found[0].position <= position < found[0].position + found[0].size
    assert bucket.audit().is_sound


def test_damage_is_named_by_the_offsets_that_it_hits(bucket: Bucket, damaged: Damage) -> None:
    with bucket.control() as control:
        topic = control.topics()["plain"]
        (log,) = control.partition_logs([(topic.topic_id, 1)])
    piece = log.piece(1)
    key = piece.key(bucket.audit(reads_objects=False).cluster_id)
    data = bytearray(bucket.store.get_all(key))
    data[piece.position + 70] ^= 1
    damaged(key, data)
    report = bucket.audit()
    (finding,) = report.errors
    assert finding.kind is Kind.DAMAGE
    assert (finding.key, finding.position, finding.size) == (key, piece.position + 70, 1)
    (hit,) = finding.hits
    assert (hit.topic, hit.partition) == ("plain", 1)
    assert (hit.first_offset, hit.end_offset) == (piece.base_offset, piece.next_offset)
    pictures = {(each.topic, each.partition): each.picture for each in report.partitions}
    assert set(pictures["plain", 1][hit.first_offset : hit.end_offset]) == {"X"}
    assert "X" not in pictures["plain", 0] + pictures["merged", 0]


def test_a_missing_and_a_truncated_object(bucket: Bucket, damaged: Damage) -> None:
    key, other = bucket.live_segments("plain")[:2]
    data = damaged(key, None)
    damaged(other, bytes(bucket.store.get_all(other))[:90])
    report = bucket.audit()
    (missing,) = errors_in(report, key)
    assert missing.kind is Kind.MISSING
    assert missing.hits
    assert len(data) > 90
    assert {Kind.TRUNCATED, Kind.DAMAGE} == {found.kind for found in errors_in(report, other)}
    assert any(finding.hits for finding in errors_in(report, other))


def test_the_listing_alone_tells_what_is_missing_and_what_is_short(
    bucket: Bucket, damaged: Damage
) -> None:
    key, other = bucket.live_segments("plain")[:2]
    damaged(key, None)
    damaged(other, bytes(bucket.store.get_all(other))[:60])
    report = bucket.audit(reads_objects=False)
    found = {each.key: each for each in report.errors}
    assert {name: each.kind for name, each in found.items()} == {
        key: Kind.MISSING,
        other: Kind.TRUNCATED,
    }
    assert all(each.hits for each in found.values())
    assert not report.bytes_read


def test_objects_that_changed_places(bucket: Bucket, damaged: Damage) -> None:
    one, two = bucket.live_segments("plain")[:2]
    first, second = bytes(bucket.store.get_all(one)), bytes(bucket.store.get_all(two))
    damaged(one, second)
    damaged(two, first)
    report = bucket.audit()
    for key in (one, two):
        assert any("belongs to another segment" in found.reason for found in errors_in(report, key))
    assert {finding.key for finding in report.errors} == {one, two}


def test_a_snapshot_of_metadata_without_one_of_its_parts(bucket: Bucket, damaged: Damage) -> None:
    (part,) = [info.key for info in bucket.store.list() if "/part-" in info.key]
    data = damaged(part, None)
    (found,) = bucket.audit().errors
    assert (found.kind, found.key) == (Kind.METADATA, part)
    bucket.store.put(part, [data + b"more"])
    (found,) = bucket.audit().errors
    assert (found.key, found.position, found.size) == (part, len(data), 4)


def test_strangers_are_notes(bucket: Bucket) -> None:
    key = bucket.segments()[0]
    cluster_id, segment = parse_segment_key(key)
    data = bytes(bucket.store.get_all(key))
    strangers = {
        segment_key("somebody-else", segment): "another cluster, somebody-else",
        "notes.txt": "no object of this cluster",
        f"{cluster_id}/segments/notes.seg": "no object of this cluster",
    }
    journal = [JOURNAL_MANIFEST_KEY, journal_append_key(7)]
    for key in [*strangers, *journal]:
        bucket.store.put(key, [data])
    try:
        report = bucket.audit()
        assert report.is_sound
        assert {finding.key for finding in report.notes} == set(strangers)
        assert {finding.kind for finding in report.notes} == {Kind.FOREIGN}
        for stranger, reason in strangers.items():
            (found,) = [each for each in report.notes if each.key == stranger]
            assert reason in found.reason
    finally:
        bucket.store.delete([*strangers, *journal])


def test_half_an_object_of_an_ended_lease(bucket: Bucket) -> None:
    """It was never committed, which gives a note, and it is incomplete, which counts as damage."""
    cluster_id, segment = parse_segment_key(bucket.segments()[0])
    bucket.cluster.restart()  # the lease ends
    bucket.cluster.advance(10_000)
    stray = segment_key(cluster_id, SegmentId(segment.lease_id, segment.sequence + 10_000))
    bucket.store.put(stray, [b"half an obj"])
    try:
        report = bucket.audit()
        assert {(found.key, found.kind) for found in report.notes} == {(stray, Kind.GARBAGE)}
        assert {(found.key, found.kind) for found in report.errors} == {(stray, Kind.DAMAGE)}
        assert report.unreferenced.garbage == 1
        assert "no partition's records are affected" in report.errors[0].reason
    finally:
        bucket.store.delete([stray])


def test_an_object_of_a_lease_that_was_never_given_out(bucket: Bucket) -> None:
    """The journal is older than the bucket, so nothing may be collected."""
    key = bucket.segments()[0]
    cluster_id, segment = parse_segment_key(key)
    future = segment_key(cluster_id, SegmentId(segment.lease_id + 1_000_000, 1))
    bucket.store.put(future, [b"x"])
    try:
        found = errors_in(bucket.audit(), future)
        assert Kind.FUTURE in {each.kind for each in found}
    finally:
        bucket.store.delete([future])


def test_an_object_that_was_written_when_the_journal_was_longer(bucket: Bucket) -> None:
    """Its lease exists, so only the object itself reveals it."""
    cluster_id, segment = parse_segment_key(bucket.segments()[-1])
    end = bucket.cluster.embedded.running.runtime.durable_position
    batch = BatchToWrite(records=(NewRecord(offset_delta=0, value=b"later"),)).encode()
    for sequence, position in ((900_000, end), (900_001, end + 1000)):
        name = SegmentId(segment.lease_id, segment.sequence + sequence)
        slices = [SliceInput(bytes(16), 0, [batch])]
        written = write_segment(cluster_id, name, slices, journal_position=position)
        bucket.store.put(segment_key(cluster_id, name), written.parts)
    try:
        found = errors_in(bucket.audit(), segment_key(cluster_id, name))
        assert [each.kind for each in found] == [Kind.FUTURE]
        assert f"at position {end + 1000}" in found[0].reason
    finally:
        bucket.store.delete(
            segment_key(cluster_id, SegmentId(segment.lease_id, segment.sequence + sequence))
            for sequence in (900_000, 900_001)
        )


def test_a_marker_of_another_cluster_without_segments_of_ours(
    bucket: Bucket, damaged: Damage
) -> None:
    damaged(CLUSTER_MARKER_KEY, None)
    report = bucket.audit()
    assert [finding.kind for finding in report.errors] == [Kind.MARKER]
