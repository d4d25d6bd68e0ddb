"""Tests object keys: they convert both ways, are spread and listed by lease, and a prefix belongs to one cluster."""

import string
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import (
    MemoryStore,
    ObjectStore,
    ObjectStoreError,
    StoreMisconfiguredError,
)
from lacuna.logstore.objects.cells import is_encrypted
from lacuna.logstore.objects.cluster_keys import ClusterKeys
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.store import check_key, check_prefix
from lacuna.logstore.objects.url import NEVER_ENCRYPTED
from lacuna.logstore.segments import (
    ClusterMarker,
    ForeignStoreError,
    InvalidPathError,
    SegmentId,
    claim_store,
    lease_prefix,
    parse_segment_key,
    read_marker,
    segment_key,
    segments_prefix,
)
from lacuna.logstore.segments.marker import check_marker
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
from lacuna.testing.faults import Fault, FaultKind, FaultyStore
from tests.doubles.keys import FixedKeys, some_keys

cluster_ids = st.text(f"{string.ascii_letters}{string.digits}_-", min_size=1, max_size=64)
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


def test_an_empty_prefix_is_claimed_once() -> None:
    store = MemoryStore()
    assert read_marker(store) is None
    assert claim_store(store, "ours") == ClusterMarker("ours")
    assert claim_store(store, "ours") == read_marker(store) == ClusterMarker("ours")
    assert store.metrics.puts == 1


def test_another_clusters_prefix_is_refused() -> None:
    store = MemoryStore()
    claim_store(store, "theirs")
    with pytest.raises(
        ForeignStoreError, match="belongs to cluster theirs, but the journal belongs to ours"
    ):
        claim_store(store, "ours")


def test_a_wiped_prefix_is_refused_by_a_journal_that_expects_data() -> None:
    with pytest.raises(
        ForeignStoreError, match=r"has no cluster.json, so it is empty or has been wiped"
    ):
        check_marker(read_marker(MemoryStore()), "ours")


@pytest.mark.parametrize("second", ["ours", "theirs"])
def test_of_two_that_claim_at_once_both_see_the_same_winner(second: str) -> None:
    store = FaultyStore(MemoryStore())
    hold = store.hold("put")
    outcome: list[object] = []

    def claim() -> None:
        try:
            outcome.append(claim_store(store, "ours"))
        except ForeignStoreError as error:
            outcome.append(error)

    late = threading.Thread(target=claim)
    late.start()
    hold.wait_until_reached()
    claim_store(store.inner, second)
    hold.release()
    late.join()
    (result,) = outcome
    assert isinstance(result, ClusterMarker if second == "ours" else ForeignStoreError)


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"nonsense", b'{"cluster_id": 7, "version": 1}', b"x" * 5000, b"\xff",
     b'{"cluster_id": "a/b", "version": 1}', b'{"cluster_id": "a", "version": null}'],
)  # fmt: skip
def test_a_marker_of_somebody_else_is_refused(text: bytes) -> None:
    store = MemoryStore()
    store.put("cluster.json", [text])
    with pytest.raises(
        ForeignStoreError, match=r"cannot be read as Lacuna's .* specify a different one"
    ):
        read_marker(store)


def test_a_newer_layout_is_refused() -> None:
    store = MemoryStore()
    store.put("cluster.json", [ClusterMarker("ours", 2).encode()])
    with pytest.raises(ForeignStoreError, match="key layout 2, but this program supports 1"):
        claim_store(store, "ours")


def test_a_store_that_fails_is_no_empty_store() -> None:
    store = FaultyStore(MemoryStore())
    store.fail(Fault("size", FaultKind.ERROR))
    with pytest.raises(ObjectStoreError):
        claim_store(store, "ours")
    assert store.metrics.puts == 0


def encrypted(store: MemoryStore, *key_ids: str, reads_plaintext: bool = False) -> ObjectStore:
    keys = some_keys(*key_ids, reads_plaintext=reads_plaintext)
    return EncryptedStore(store, keys, plain=NEVER_ENCRYPTED)


def test_the_marker_is_the_only_object_that_is_never_encrypted() -> None:
    assert {CLUSTER_MARKER_KEY} == NEVER_ENCRYPTED
    store = MemoryStore()
    claim_store(encrypted(store, "k1"), "ours")
    assert store.get_all(CLUSTER_MARKER_KEY) == ClusterMarker("ours").encode()
    assert is_encrypted(store.get_all("encryption/k1"))


def test_an_encrypted_cluster_is_not_opened_without_its_keys() -> None:
    store = MemoryStore()
    claim_store(encrypted(store, "k1"), "ours")
    for open_again in (read_marker, lambda each: claim_store(each, "ours")):
        with pytest.raises(
            StoreMisconfiguredError, match="are encrypted, with key k1: specify the file"
        ):
            open_again(store)
    assert read_marker(encrypted(store, "k1")) == ClusterMarker("ours")


def test_another_key_of_the_same_id_is_noticed() -> None:
    store = MemoryStore()
    claim_store(encrypted(store, "k1"), "ours")
    other = FixedKeys(ClusterKeys("k1", False, {"k1": bytes(32)}))
    with pytest.raises(StoreMisconfiguredError, match="key 'k1' is not the key that encrypted"):
        read_marker(EncryptedStore(store, other, plain=NEVER_ENCRYPTED))


def test_each_key_says_that_objects_are_encrypted_and_an_old_one_can_go() -> None:
    store = MemoryStore()
    for key_ids in (["k1"], ["k2", "k1"], ["k2"]):
        claim_store(encrypted(store, *key_ids), "ours")
    assert [info.key for info in store.list("encryption/")] == ["encryption/k1", "encryption/k2"]
    with pytest.raises(StoreMisconfiguredError, match="with key k1, k2: specify the file"):
        read_marker(store)


def test_a_cluster_is_encrypted_later_only_if_what_it_has_may_be_read() -> None:
    store = MemoryStore()
    claim_store(store, "ours")
    with pytest.raises(StoreMisconfiguredError, match=r'not encrypted: .* set plaintext = "read"'):
        claim_store(encrypted(store, "k1"), "ours")
    assert read_marker(store) == ClusterMarker("ours")
    claim_store(encrypted(store, "k1", reads_plaintext=True), "ours")
    assert read_marker(encrypted(store, "k1")) == ClusterMarker("ours")
    with pytest.raises(StoreMisconfiguredError, match="are encrypted, with key k1"):
        read_marker(store)


def test_nothing_is_written_into_the_prefix_of_another_cluster() -> None:
    store = MemoryStore()
    claim_store(store, "theirs")
    with pytest.raises(ForeignStoreError):
        claim_store(encrypted(store, "k1", reads_plaintext=True), "ours")
    assert [info.key for info in store.list()] == [CLUSTER_MARKER_KEY]
