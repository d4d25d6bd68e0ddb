"""Tests the behaviour that all object stores share: memory, directory, and S3 on moto's server."""

import itertools
import pickle
import threading
from types import NoneType

import pytest

from lacuna.logstore.objects import (
    InvalidKeyError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    ShortReadError,
)
from lacuna.logstore.objects.store import RangeRead

KEYS = ["a", "a-b/c", "a.b", "b/1", "b/2/x", "b/2/y", "b/3", "b0", "c_/d=e/f"]


def fill(store: ObjectStore, keys: list[str]) -> None:
    for key in keys:
        store.put(key, [key.encode()])


def listed(store: ObjectStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [info.key for info in store.list(prefix, start_after)]


def test_an_object_is_its_parts_in_order(store: ObjectStore) -> None:
    payload = bytes(range(256)) * 20
    store.put("k", [payload[:7], memoryview(payload)[7:300], b"", bytearray(payload[300:])])
    assert store.get_all("k") == payload
    assert store.size("k") == len(payload)


def test_more_parts_than_one_system_call_takes(store: ObjectStore) -> None:
    parts = [bytes([i % 256]) * (i % 5) for i in range(3000)]
    store.put("k", parts)
    assert store.get_all("k") == b"".join(parts)


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    store.put("k", [])
    assert store.size("k") == 0
    assert store.get_all("k") == b""
    with pytest.raises(ShortReadError):
        store.get("k", 0, 1)


def test_an_object_is_never_overwritten(store: ObjectStore) -> None:
    store.put("k", [b"first"])
    for other in (b"second", b"first"):
        with pytest.raises(ObjectExistsError, match="'k'"):
            store.put("k", [other])
    assert store.get_all("k") == b"first"
    store.delete(["k"])
    store.put("k", [b"second"])
    assert store.get_all("k") == b"second"


def test_of_many_writers_one_wins(store: ObjectStore) -> None:
    won: list[int] = []
    lost: list[int] = []
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        try:
            store.put("deep/down/k", [b"%d" % number] * 100)
        except ObjectExistsError:
            lost.append(number)
        else:
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    assert store.get_all("deep/down/k") == b"%d" % won[0] * 100


def test_many_reads_go_where_they_belong_and_fail_alone(store: ObjectStore) -> None:
    """The parts of a read need not be adjacent, and may be in any order in the buffer."""
    store.put("a", [b"0123456789"])
    store.put("b", [b"abcdef"])
    reads = [
        RangeRead("a", 1, 8, [(1, 2, 6), (5, 4, 0)]),
        RangeRead("none", 0, 1, [(0, 1, 12)]),
        RangeRead("b", 0, 2, [(0, 2, 4)]),
        RangeRead("b", 4, 4, [(4, 4, 8)]),
    ]
    buffer = bytearray(13)
    outcomes = store.get_into(reads, buffer)
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        ObjectNotFoundError,
        type(None),
        ShortReadError,
    ]
    assert isinstance(outcomes[3], ShortReadError)
    assert (outcomes[3].position, outcomes[3].size, outcomes[3].available) == (4, 4, 2)
    assert buffer[:8] == b"5678ab12"
    assert store.metrics.gets == 2
    assert store.get_into([], buffer) == []


def test_a_range_is_read_exactly(store: ObjectStore) -> None:
    store.put("k", [b"0123456789"])
    for position, size in ((0, 1), (0, 10), (3, 4), (9, 1)):
        data = store.get("k", position, size)
        assert isinstance(data, bytearray)
        assert data == b"0123456789"[position : position + size]


def test_up_to_a_size_is_read_as_far_as_the_object_goes(store: ObjectStore) -> None:
    store.put("k", [b"0123456789"])
    for position, size, expected in ((0, 10, b"0123456789"), (2, 3, b"234"), (8, 500, b"89")):
        before = store.metrics.gets, store.metrics.bytes_read
        data = store.get_up_to("k", position, size)
        assert isinstance(data, bytearray)
        assert data == expected
        assert store.metrics.gets == before[0] + 1
        assert store.metrics.bytes_read == before[1] + len(expected)


def test_up_to_a_size_is_not_read_beyond_the_end(store: ObjectStore) -> None:
    store.put("k", [b"0123456789"])
    with pytest.raises(ShortReadError):
        store.get_up_to("k", 10, 5)
    with pytest.raises(ObjectNotFoundError):
        store.get_up_to("none", 0, 5)


def test_a_range_beyond_the_end_is_an_error(store: ObjectStore) -> None:
    store.put("k", [b"0123456789"])
    for position, size, available in ((0, 11, 10), (9, 2, 1), (10, 1, 0), (500, 5, 0)):
        with pytest.raises(ShortReadError) as caught:
            store.get("k", position, size)
        error = caught.value
        assert (error.key, error.position, error.size) == ("k", position, size)
        assert error.available == available


def test_what_is_no_range_is_refused(store: ObjectStore) -> None:
    store.put("k", [b"0123456789"])
    for position, size in ((-1, 1), (0, 0), (0, -1)):
        with pytest.raises(ValueError, match="is not valid"):
            store.get("k", position, size)


def test_what_is_not_there_is_not_found(store: ObjectStore) -> None:
    store.put("dir/k", [b"x"])
    for key in ("nothing", "dir", "dir/k/below", "dir/other"):
        with pytest.raises(ObjectNotFoundError):
            store.get(key, 0, 1)
        with pytest.raises(ObjectNotFoundError):
            store.get_all(key)
        with pytest.raises(ObjectNotFoundError):
            store.size(key)


def test_deleting_is_idempotent(store: ObjectStore) -> None:
    fill(store, ["x/1", "x/2", "y"])
    assert store.get("x/1", 0, 3) == b"x/1"
    for _ in range(2):
        store.delete(["x/1", "y", "never"])
    assert listed(store) == ["x/2"]
    with pytest.raises(ObjectNotFoundError):
        store.get("x/1", 0, 3)
    store.delete([])


def test_a_listing_is_in_key_order(store: ObjectStore) -> None:
    fill(store, KEYS[::-1])
    assert listed(store) == sorted(KEYS)


@pytest.mark.slow
def test_a_listing_has_a_prefix_and_a_start(store: ObjectStore) -> None:
    fill(store, KEYS)
    prefixes = [
        "",
        "none/below/",
        "a.b/below",
        "a",
        "a-",
        "b",
        "b/",
        "b/2",
        "b/2/",
        "b/2/y",
        "c_/d",
        "z",
    ]
    starts = ["", "a", "b/1", "b/2", "b/2/x", "b/2/zz", "b/3", "zz"]
    for prefix, start_after in itertools.product(prefixes, starts):
        expected = [key for key in sorted(KEYS) if key.startswith(prefix) and key > start_after]
        assert listed(store, prefix, start_after) == expected, (prefix, start_after)


def test_a_listing_says_size_and_age(store: ObjectStore) -> None:
    store.put("k", [b"12345"])
    (info,) = store.list()
    assert info.size == 5
    assert info.modified_ms > 1_600_000_000_000


def test_a_listing_of_several_pages(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.logstore.objects.s3._PAGE_KEYS", 10)
    monkeypatch.setattr("lacuna.logstore.objects.s3._DELETE_KEYS", 10)
    monkeypatch.setattr("lacuna.logstore.objects.memory._PAGE_KEYS", 10)
    keys = [f"p/{number:04}" for number in range(25)]
    fill(store, keys)
    assert listed(store, "p/", "p/0001") == keys[2:]
    store.delete(keys)
    assert listed(store) == []


NOT_EVERYWHERE = ["", "/a", "a/", "a//b", ".a", "a/../b", "a/.tmp", "ä", "a b", "a\n"]


def test_keys_that_not_every_store_can_hold_are_refused(store: ObjectStore) -> None:
    for key in (*NOT_EVERYWHERE, "x" * 901, "y" * 201):
        with pytest.raises(InvalidKeyError):
            store.put(key, [b"x"])
        with pytest.raises(InvalidKeyError):
            store.get(key, 0, 1)
        with pytest.raises(InvalidKeyError):
            store.size(key)
        with pytest.raises(InvalidKeyError):
            store.delete([key])


def test_prefixes_of_no_key_are_refused(store: ObjectStore) -> None:
    with pytest.raises(InvalidKeyError):
        list(store.list("/"))


def test_what_was_done_is_counted(store: ObjectStore) -> None:
    """The tests for S18 use these counters: the bytes read are the bytes requested from the store."""
    metrics = store.metrics
    store.put("k", [b"0123456789"])
    store.get("k", 2, 3)
    store.get_all("k")
    store.size("k")
    listed(store)
    store.delete(["k", "other"])
    assert (metrics.puts, metrics.bytes_written) == (1, 10)
    assert (metrics.gets, metrics.bytes_read) == (2, 13)
    assert (metrics.sizes, metrics.deletes) == (1, 2)
    assert metrics.lists >= 1


def test_what_lies_between_the_parts_of_a_read_is_counted_apart(store: ObjectStore) -> None:
    """S18: the counter shows the unneeded bytes. A directory reads only the parts."""
    store.put("k", [b"0123456789"])
    buffer = bytearray(5)
    reads = [
        RangeRead("k", 1, 6, [(1, 2, 0), (6, 1, 2)]),
        RangeRead("k", 8, 2, [(8, 2, 3)]),
        RangeRead("other", 0, 3, [(0, 1, 0), (2, 1, 1)]),
    ]
    outcomes = store.get_into(reads, buffer)
    assert [type(outcome) for outcome in outcomes] == [NoneType, NoneType, ObjectNotFoundError]
    assert buffer == b"12689"
    metrics = store.metrics
    assert metrics.bytes_between in (0, 3)
    assert metrics.bytes_read == 5 + metrics.bytes_between
    assert metrics.gets == 2


def test_failed_calls_are_not_counted(store: ObjectStore) -> None:
    store.put("k", [b"x"])
    with pytest.raises(ObjectExistsError):
        store.put("k", [b"y"])
    with pytest.raises(ShortReadError):
        store.get("k", 0, 5)
    assert (store.metrics.puts, store.metrics.gets, store.metrics.bytes_read) == (1, 0, 0)


def test_every_kind_is_an_object_store(store: ObjectStore) -> None:
    assert isinstance(store, ObjectStore)
    assert store.read_gap >= 0
    assert store.reads_at_once >= 1
    store.check()
    assert listed(store) == []


def test_errors_survive_the_way_between_processes(store: ObjectStore) -> None:
    store.put("k", [b"x"])
    for call in (
        lambda: store.put("k", [b"y"]),
        lambda: store.get("k", 0, 5),
        lambda: store.get_all("none"),
    ):
        with pytest.raises(ObjectStoreError) as caught:
            call()
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))
