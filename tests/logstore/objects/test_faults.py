"""Tests the fault layer itself, on which other tests depend."""

import random
import threading

import pytest

from lacuna.logstore.objects import (
    MemoryStore,
    NotDeletedError,
    ObjectNotFoundError,
    ObjectStore,
    ShortReadError,
    StoreUnavailableError,
)
from lacuna.testing.faults import Fault, FaultKind, FaultyStore, Operation


@pytest.fixture
def faulty() -> FaultyStore:
    store = FaultyStore(MemoryStore())
    store.put("k", [b"0123456789"])
    return store


def test_without_faults_it_is_the_store_inside(faulty: FaultyStore) -> None:
    assert isinstance(faulty, ObjectStore)
    faulty.check()
    assert faulty.get("k", 1, 2) == b"12"
    assert faulty.get_all("k") == b"0123456789"
    assert faulty.size("k") == 10
    assert [info.key for info in faulty.list()] == ["k"]
    faulty.delete(["k"])
    assert (faulty.read_gap, faulty.metrics) == (0, faulty.inner.metrics)
    faulty.close()


def test_an_error_before_leaves_nothing_done(faulty: FaultyStore) -> None:
    faulty.fail(Fault("put", FaultKind.ERROR, "seg/"), Fault("delete", FaultKind.ERROR))
    faulty.put("other", [b"x"])
    with pytest.raises(StoreUnavailableError):
        faulty.put("seg/1", [b"x"])
    with pytest.raises(ObjectNotFoundError):
        faulty.size("seg/1")
    with pytest.raises(NotDeletedError) as left:
        faulty.delete(["k", "other"])
    assert isinstance(left.value.failures["k"], StoreUnavailableError)
    assert left.value.failures.keys() == {"k"}
    with pytest.raises(ObjectNotFoundError):
        faulty.size("other")
    assert faulty.size("k") == 10
    assert faulty.pending() == ()
    faulty.put("seg/1", [b"x"])


def test_a_lost_reply_leaves_it_done(faulty: FaultyStore) -> None:
    faulty.fail(*(Fault(of, FaultKind.LOST_REPLY) for of in ("put", "delete", "list", "size")))
    with pytest.raises(StoreUnavailableError, match="lost"):
        faulty.put("x", [b"x"])
    assert faulty.inner.size("x") == 1
    with pytest.raises(NotDeletedError):
        faulty.delete(["x"])
    with pytest.raises(ObjectNotFoundError):
        faulty.inner.size("x")
    with pytest.raises(StoreUnavailableError):
        list(faulty.list())
    with pytest.raises(StoreUnavailableError):
        faulty.size("k")


def test_faults_of_reading(faulty: FaultyStore) -> None:
    faulty.fail(Fault("get", FaultKind.NOT_FOUND), Fault("size", FaultKind.NOT_FOUND))
    with pytest.raises(ObjectNotFoundError):
        faulty.get("k", 0, 5)
    with pytest.raises(ObjectNotFoundError):
        faulty.size("k")
    faulty.fail(Fault("get", FaultKind.TRUNCATED), Fault("get", FaultKind.TRUNCATED))
    with pytest.raises(ShortReadError) as caught:
        faulty.get("k", 2, 6)
    assert caught.value.available < 6
    assert faulty.get_all("k") == b"01234"
    faulty.fail(Fault("get", FaultKind.FLIPPED_BIT), Fault("get", FaultKind.FLIPPED_BIT))
    for read in (faulty.get("k", 0, 10), faulty.get_all("k")):
        wrong = [ours ^ theirs for ours, theirs in zip(read, b"0123456789", strict=True)]
        assert sum(bits.bit_count() for bits in wrong) == 1
    assert faulty.get_all("k") == b"0123456789"


def test_there_is_no_bit_to_flip_in_nothing(faulty: FaultyStore) -> None:
    faulty.put("empty", [])
    faulty.fail(Fault("get", FaultKind.FLIPPED_BIT), Fault("get", FaultKind.TRUNCATED))
    assert faulty.get_all("empty") == b""
    assert faulty.get_all("empty") == b""


def test_a_put_is_held_until_it_is_released(faulty: FaultyStore) -> None:
    hold = faulty.hold("put", "seg/")
    faulty.put("other", [b"x"])
    assert not hold.is_reached()
    writer = threading.Thread(target=faulty.put, args=("seg/1", [b"x"]))
    writer.start()
    hold.wait_until_reached()
    with pytest.raises(ObjectNotFoundError):
        faulty.size("seg/1")
    hold.release()
    writer.join()
    assert faulty.size("seg/1") == 1
    faulty.put("seg/2", [b"x"])
    assert hold.is_released()


def test_a_hold_that_nobody_reaches_or_releases_is_an_error(
    faulty: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuna.testing.faults._HOLD_TIMEOUT_S", 0.01)
    with pytest.raises(TimeoutError):
        faulty.hold("get").wait_until_reached(0.01)
    with pytest.raises(TimeoutError):
        faulty.get_all("k")
    released = faulty.hold("size")
    released.release()
    faulty.hold("list")
    assert faulty.size("k") == 10


def run_seeded(seed: int) -> list[str]:
    rates: dict[tuple[Operation, FaultKind], float] = {
        ("put", FaultKind.ERROR): 0.3,
        ("get", FaultKind.FLIPPED_BIT): 0.3,
    }
    store = FaultyStore(MemoryStore(), source=random.Random(seed), rates=rates)
    happened = []
    for number in range(50):
        try:
            store.put(str(number), [b"payload"])
        except StoreUnavailableError:
            happened.append("put")
        else:
            happened.append(bytes(store.get_all(str(number))).hex())
    return happened


def test_faults_by_chance_follow_the_seed() -> None:
    assert run_seeded(1) == run_seeded(1)
    assert run_seeded(1) != run_seeded(2)
    assert {"put", b"payload".hex()} < set(run_seeded(1))


def test_faults_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot occur in put"):
        Fault("put", FaultKind.TRUNCATED)
    with pytest.raises(ValueError, match="cannot occur in"):
        FaultyStore(
            MemoryStore(), source=random.Random(1), rates={("put", FaultKind.NOT_FOUND): 1.0}
        )
    with pytest.raises(ValueError, match="source of randomness"):
        FaultyStore(MemoryStore(), rates={("put", FaultKind.ERROR): 1.0})
