"""A bucket prefix belongs to one cluster."""

import threading

import pytest

from lacuna.logstore.objects import MemoryStore, ObjectStoreError
from lacuna.logstore.segments import ClusterMarker, ForeignStoreError, claim_store, read_marker
from lacuna.logstore.segments.marker import check_marker
from lacuna.testing.faults import Fault, FaultKind, FaultyStore


def test_an_empty_prefix_is_claimed_once() -> None:
    store = MemoryStore()
    assert read_marker(store) is None
    assert claim_store(store, "ours") == ClusterMarker("ours")
    assert claim_store(store, "ours") == read_marker(store) == ClusterMarker("ours")
    assert store.metrics.puts == 1


def test_another_clusters_prefix_is_refused() -> None:
    store = MemoryStore()
    claim_store(store, "theirs")
    with pytest.raises(ForeignStoreError, match="belongs to cluster theirs, the journal to ours"):
        claim_store(store, "ours")


def test_a_wiped_prefix_is_refused_by_a_journal_that_expects_data() -> None:
    with pytest.raises(ForeignStoreError, match=r"has no cluster.json: it is empty or was wiped"):
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
    with pytest.raises(ForeignStoreError, match="key layout 2, this program knows 1"):
        claim_store(store, "ours")


def test_a_store_that_fails_is_no_empty_store() -> None:
    store = FaultyStore(MemoryStore())
    store.fail(Fault("size", FaultKind.ERROR))
    with pytest.raises(ObjectStoreError):
        claim_store(store, "ours")
    assert store.metrics.puts == 0
