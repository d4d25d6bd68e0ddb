"""Tests that keys convert both ways, are spread, and can be listed by lease."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects.store import check_key, check_prefix
from lacuna.logstore.segments import (
    InvalidPathError,
    SegmentId,
    lease_prefix,
    parse_segment_key,
    segment_key,
    segments_prefix,
)
from lacuna.logstore.segments.paths import (
    CLUSTER_MARKER_KEY,
    JOURNAL_MANIFEST_KEY,
    MAX_LEASE_ID,
    MAX_SEQUENCE,
    JournalSnapshotName,
    is_journal_key,
    journal_append_key,
    journal_probe_key,
    parse_journal_append_key,
    parse_journal_snapshot_key,
)

cluster_ids = st.from_regex(r"[A-Za-z0-9_\-]{1,64}", fullmatch=True)
lease_ids = st.integers(0, MAX_LEASE_ID)
segment_ids = st.builds(SegmentId, lease_ids, st.integers(0, MAX_SEQUENCE))


@given(cluster_ids, segment_ids)
def test_a_key_goes_both_ways(cluster_id: str, segment_id: SegmentId) -> None:
    key = segment_key(cluster_id, segment_id)
    assert parse_segment_key(key) == (cluster_id, segment_id)
    assert check_key(key) == key


@given(segment_ids)
def test_a_segment_id_goes_both_ways(segment_id: SegmentId) -> None:
    assert SegmentId.parse(str(segment_id)) == segment_id


@given(cluster_ids, segment_ids, lease_ids)
def test_a_lease_is_listed_alone(cluster_id: str, segment_id: SegmentId, lease_id: int) -> None:
    prefix = lease_prefix(cluster_id, lease_id)
    assert check_prefix(prefix).startswith(segments_prefix(cluster_id))
    is_its = segment_key(cluster_id, segment_id).startswith(prefix)
    assert is_its == (segment_id.lease_id == lease_id)


@given(segment_ids, st.integers(0, MAX_SEQUENCE))
def test_a_lease_is_listed_in_the_order_of_writing(segment_id: SegmentId, sequence: int) -> None:
    other = SegmentId(segment_id.lease_id, sequence)
    keys = segment_key("c", segment_id), segment_key("c", other)
    assert (keys[0] < keys[1]) == (segment_id < other)


def test_leases_that_follow_each_other_spread_over_the_first_digit() -> None:
    prefixes = [lease_prefix("c", 0x1200 + number) for number in range(16)]
    assert len({prefix[len("c/segments/")] for prefix in prefixes}) == 16


def test_keys_look_as_documented() -> None:
    key = segment_key("Zq3v-x_9", SegmentId(0x1F, 42))
    assert key == "Zq3v-x_9/segments/f100000000000000/00000000002a.seg"
    assert str(SegmentId(0x1F, 42)) == "1f-2a"
    assert CLUSTER_MARKER_KEY == "cluster.json"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "cluster.json",
        "c/segments/f100000000000000/",
        "c/segments/f100000000000000/2a.seg",
        "c/segments/F100000000000000/00000000002a.seg",
        "c/segments/000000000000000f/00000000002a.seg",
        "c/segments/f100000000000000/00000000002a.seg\n",
        "c.d/segments/f100000000000000/00000000002a.seg",
        "x/c/segments/f100000000000000/00000000002a.seg",
    ],
)
def test_other_keys_are_no_segments(key: str) -> None:
    with pytest.raises(InvalidPathError):
        parse_segment_key(key)


@pytest.mark.parametrize("cluster_id", ["", "a/b", "a.b", "ä", "x" * 65])
def test_a_cluster_id_must_fit_into_a_key(cluster_id: str) -> None:
    with pytest.raises(InvalidPathError):
        segments_prefix(cluster_id)


@pytest.mark.parametrize(("lease_id", "sequence"), [(-1, 0), (2**63, 0), (0, -1), (0, 2**48)])
def test_ids_are_bounded(lease_id: int, sequence: int) -> None:
    with pytest.raises(InvalidPathError):
        SegmentId(lease_id, sequence)
    if sequence == 0:
        with pytest.raises(InvalidPathError):
            lease_prefix("c", lease_id)


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "1-g", "1-2-3", "10000000000000000-0"])
def test_other_texts_are_no_segment_ids(text: str) -> None:
    with pytest.raises(InvalidPathError):
        SegmentId.parse(text)


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, MAX_SEQUENCE))
def test_appends_are_listed_in_the_order_of_writing(number: int, other: int) -> None:
    key = journal_append_key(number)
    assert parse_journal_append_key(check_key(key)) == number
    assert (key < journal_append_key(other)) == (number < other)
    assert is_journal_key(key)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 999_999))
def test_the_keys_of_a_snapshot_go_both_ways(position: int, number: int, part: int) -> None:
    name = JournalSnapshotName(position, number)
    assert parse_journal_snapshot_key(check_key(name.index_key())) == (name, True)
    assert parse_journal_snapshot_key(check_key(name.part_key(part))) == (name, False)
    assert is_journal_key(name.index_key())


def test_other_keys_are_not_the_journals() -> None:
    assert is_journal_key(JOURNAL_MANIFEST_KEY)
    assert is_journal_key(check_key(journal_probe_key(bytes(16))))
    # A cluster may be called so.
    assert not is_journal_key(segment_key("journal", SegmentId(1, 2)))
    for parse in (parse_journal_append_key, parse_journal_snapshot_key):
        with pytest.raises(InvalidPathError):
            parse("journal/appends/1")
    with pytest.raises(InvalidPathError):
        journal_append_key(-1)
