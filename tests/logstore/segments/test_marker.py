"""Tests that a bucket prefix belongs to one cluster."""

import threading

import pytest

from lacuna.logstore.objects import (
    MemoryStore,
    ObjectStore,
    ObjectStoreError,
    StoreMisconfiguredError,
)
from lacuna.logstore.objects.cells import is_encrypted
from lacuna.logstore.objects.cluster_keys import ClusterKeys
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.url import NEVER_ENCRYPTED
from lacuna.logstore.segments import ClusterMarker, ForeignStoreError, claim_store, read_marker
from lacuna.logstore.segments.marker import check_marker
from lacuna.logstore.segments.paths import CLUSTER_MARKER_KEY
from lacuna.testing.faults import Fault, FaultKind, FaultyStore
from tests.doubles.keys import FixedKeys, some_keys


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
        ForeignStoreError, match="belongs to cluster theirs, but the journal to ours"
    ):
        claim_store(store, "ours")


def test_a_wiped_prefix_is_refused_by_a_journal_that_expects_data() -> None:
    with pytest.raises(
        ForeignStoreError, match=r"has no cluster.json, so it is empty or was wiped"
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
        ForeignStoreError, match=r"cannot be read as Lacuna's .* name another prefix"
    ):
        read_marker(store)


def test_a_newer_layout_is_refused() -> None:
    store = MemoryStore()
    store.put("cluster.json", [ClusterMarker("ours", 2).encode()])
    with pytest.raises(ForeignStoreError, match="key layout 2, but this program knows 1"):
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
            StoreMisconfiguredError, match="are encrypted, with key k1: name the file"
        ):
            open_again(store)
    assert read_marker(encrypted(store, "k1")) == ClusterMarker("ours")


def test_another_key_of_the_same_id_is_noticed() -> None:
    store = MemoryStore()
    claim_store(encrypted(store, "k1"), "ours")
    other = FixedKeys(ClusterKeys("k1", False, {"k1": bytes(32)}))
    with pytest.raises(StoreMisconfiguredError, match="key 'k1' is not the one with which objects"):
        read_marker(EncryptedStore(store, other, plain=NEVER_ENCRYPTED))


def test_each_key_says_that_objects_are_encrypted_and_an_old_one_can_go() -> None:
    store = MemoryStore()
    for key_ids in (["k1"], ["k2", "k1"], ["k2"]):
        claim_store(encrypted(store, *key_ids), "ours")
    assert [info.key for info in store.list("encryption/")] == ["encryption/k1", "encryption/k2"]
    with pytest.raises(StoreMisconfiguredError, match="with key k1, k2: name the file"):
        read_marker(store)


def test_a_cluster_is_encrypted_later_only_if_what_it_has_may_be_read() -> None:
    store = MemoryStore()
    claim_store(store, "ours")
    with pytest.raises(
        StoreMisconfiguredError, match=r'not encrypted: .* write plaintext = "read"'
    ):
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
