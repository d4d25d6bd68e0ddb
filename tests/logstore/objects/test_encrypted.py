"""Tests that any range of an encrypted object reads back as it was put, and that other stored bytes are an error."""

import hmac
import itertools
import random
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import (
    DamagedObjectError,
    MemoryStore,
    ObjectNotFoundError,
    ObjectStoreError,
    ShortReadError,
)
from lacuna.logstore.objects.cells import CELL_SIZE, STORED_CELL_SIZE, seal, size_of
from lacuna.logstore.objects.cluster_keys import KeyMissingError
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.store import RangeRead
from tests.doubles.keys import FixedKeys, made_up, some_keys

SIZES = st.one_of(
    st.sampled_from([0, 1, CELL_SIZE - 1, CELL_SIZE, CELL_SIZE + 1, 2 * CELL_SIZE, 3 * CELL_SIZE]),
    st.integers(0, 3 * CELL_SIZE + 500),
)


def opened(keys: FixedKeys | None = None) -> EncryptedStore[MemoryStore]:
    return EncryptedStore(MemoryStore(), keys or some_keys())


def contents(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def restored(store: EncryptedStore[MemoryStore], key: str, data: bytes) -> None:
    """Put other bytes under a key, as anyone with write access to the bucket could."""
    store.inner.delete([key])
    store.inner.put(key, [data])


@given(data=st.data(), size=SIZES)
def test_any_range_reads_as_that_of_the_object_itself(data: st.DataObject, size: int) -> None:
    payload = contents(size)
    store, plain = opened(), MemoryStore()
    for each in (store, plain):
        each.put("k", [payload[: size // 3], payload[size // 3 :]])
    assert store.size("k") == size
    assert [info.size for info in store.list()] == [size]
    assert store.get_all("k") == payload
    for _ in range(5):
        position = data.draw(st.integers(0, size + 10))
        length = data.draw(st.integers(1, size + 10))
        for name in ("get", "get_up_to"):
            assert outcome(store, name, position, length) == outcome(plain, name, position, length)


def outcome(store: EncryptedStore[MemoryStore] | MemoryStore, name: str, *place: int) -> object:
    """Return the result of a read, or its error with the full message."""
    try:
        return getattr(store, name)("k", *place)
    except ShortReadError as error:
        return str(error)


@given(data=st.data(), sizes=st.lists(SIZES, min_size=1, max_size=3))
def test_many_reads_bring_what_they_bring_without_encryption(
    data: st.DataObject, sizes: list[int]
) -> None:
    """Adjacent reads are joined, but each of them fails separately."""
    store, plain = opened(), MemoryStore()
    reads, filled = [], 0
    for number, size in enumerate(sizes):
        for each in (store, plain):
            each.put(f"k{number}", [contents(size, number)])
        begins = sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
        for position in begins:
            length = data.draw(st.integers(2, CELL_SIZE + 100))
            parts = [(position, 1, filled), (position + length - 1, 1, filled + 1)]
            reads.append(RangeRead(f"k{number}", position, length, parts))
            filled += 2
    reads.append(RangeRead("none", 0, 1, [(0, 1, filled)]))
    found, expected = bytearray(filled + 1), bytearray(filled + 1)
    outcomes = store.get_into(reads, found)
    wanted = plain.get_into(reads, expected)
    assert [str(each) for each in outcomes] == [str(each) for each in wanted]
    assert found == expected


def test_reads_that_share_a_cell_are_one_request() -> None:
    store = opened()
    store.put("k", [contents(10 * CELL_SIZE)])
    reads = [
        RangeRead("k", at, 10, [(at, 10, index * 10)])
        for index, at in enumerate((5, 500, CELL_SIZE + 9))
    ]
    reads.append(RangeRead("k", 5 * CELL_SIZE, 10, [(5 * CELL_SIZE, 10, 30)]))
    assert store.get_into(reads, bytearray(40)) == [None] * 4
    assert store.inner.metrics.gets == 2
    assert store.inner.metrics.bytes_read == 3 * STORED_CELL_SIZE
    assert (store.metrics.gets, store.metrics.bytes_read) == (4, 40)


def test_nothing_of_an_object_is_stored_as_it_is() -> None:
    store = opened()
    for key in ("one", "two"):
        store.put(key, [b"a secret " * 20_000])
    first, second = store.inner.get_all("one"), store.inner.get_all("two")
    assert b"secret" not in first
    assert len(first) == 180_000 + 3 * 64
    same = sum(one == other for one, other in zip(first, second, strict=True))
    assert same < len(first) / 100  # a chance of 1/256, and the beginnings of the cells


def flipped(stored: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(stored))
    return stored[:at] + bytes([stored[at] ^ 1 << chance.randrange(8)]) + stored[at + 1 :]


def cut(stored: bytes, chance: random.Random) -> bytes:
    at_cell = chance.randrange(len(stored) // STORED_CELL_SIZE + 1) * STORED_CELL_SIZE
    return stored[: chance.choice([at_cell, chance.randrange(len(stored))])]


def exchanged(stored: bytes, chance: random.Random) -> bytes:
    cells = [stored[at : at + STORED_CELL_SIZE] for at in range(0, len(stored), STORED_CELL_SIZE)]
    one, other = chance.sample(range(len(cells)), 2)
    cells[one], cells[other] = cells[other], cells[one]
    return b"".join(cells)


def without_one(stored: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(stored) // STORED_CELL_SIZE) * STORED_CELL_SIZE
    return stored[:at] + stored[at + STORED_CELL_SIZE :]


def longer(stored: bytes, chance: random.Random) -> bytes:
    return stored + stored[: chance.choice([1, 63, 64, STORED_CELL_SIZE])]


@pytest.mark.parametrize("damage", [flipped, cut, exchanged, without_one, longer])
def test_damage_is_an_error_and_never_other_bytes(
    damage: Callable[[bytes, random.Random], bytes],
) -> None:
    for seed in range(20):
        _check_damage(damage, seed)


def _check_damage(damage: Callable[[bytes, random.Random], bytes], seed: int) -> None:
    chance = random.Random(seed)
    payload = contents(3 * CELL_SIZE + chance.choice([0, 1, 5000]), seed)
    store = opened()
    store.put("k", [payload])
    restored(store, "k", damage(bytes(store.inner.get_all("k")), chance))
    with pytest.raises(ObjectStoreError):
        store.get_all("k")
    failures = 0
    for position in range(0, len(payload), 10_000):
        size = min(10_000, len(payload) - position)
        try:
            assert store.get("k", position, size) == payload[position : position + size]
        except (DamagedObjectError, ShortReadError):
            failures += 1
    assert failures or damage is longer, seed


def test_an_object_under_another_name_is_damaged() -> None:
    store = opened()
    for key in ("one", "two"):
        store.put(key, [key.encode()])
    restored(store, "two", bytes(store.inner.get_all("one")))
    with pytest.raises(
        DamagedObjectError,
        match="'two' is damaged at position 0: its bytes differ from those written",
    ):
        store.get("two", 0, 3)


def test_cells_of_an_earlier_object_of_the_same_name_are_damaged() -> None:
    store = opened()
    stored = []
    for seed in (1, 2):
        store.put("k", [contents(2 * CELL_SIZE, seed)])
        stored.append(bytes(store.inner.get_all("k")))
        store.delete(["k"])
    mixed = stored[0][:STORED_CELL_SIZE] + stored[1][STORED_CELL_SIZE:]
    store.inner.put("k", [mixed])
    with pytest.raises(
        DamagedObjectError, match="the cell's prefix differs from the previous cell's"
    ):
        store.get_all("k")


def test_only_sizes_that_are_stored_have_a_size() -> None:
    sizes = {}
    for size in itertools.chain(range(200), range(CELL_SIZE - 50, CELL_SIZE + 200)):
        store = opened()
        store.put("k", [bytes(size)])
        sizes[store.inner.size("k")] = size
    for stored in itertools.chain(range(200), range(STORED_CELL_SIZE - 50, STORED_CELL_SIZE + 200)):
        if stored in sizes:
            assert size_of("k", stored) == sizes[stored]
        else:
            with pytest.raises(
                DamagedObjectError, match=f"no encrypted object can have {stored} stored bytes"
            ):
                size_of("k", stored)


def test_a_new_key_is_for_new_objects_and_old_ones_keep_theirs() -> None:
    keys = some_keys("old")
    store = opened(keys)
    store.put("before", [b"1"])
    keys.keys = some_keys("new", "old").keys
    store.put("after", [b"2"])
    assert store.get_all("before") == b"1"
    assert store.get_all("after") == b"2"
    keys.keys = some_keys("new").keys
    assert store.get_all("after") == b"2"
    with pytest.raises(
        KeyMissingError, match=r"with key 'old', but the test has only new: restore that key"
    ):
        store.get("before", 0, 1)


def test_plaintext_is_refused_unless_the_keys_say_that_it_is_read() -> None:
    keys = some_keys()
    store = opened(keys)
    payload = contents(2 * CELL_SIZE + 77)
    for key, size in (("plain", len(payload)), ("short", 3), ("empty", 0)):
        store.inner.put(key, [payload[:size]])
    store.put("secret", [payload])
    with pytest.raises(DamagedObjectError, match="it is not encrypted, or has been truncated"):
        store.get("short", 0, 3)
    for key in ("plain",):
        with pytest.raises(DamagedObjectError, match="it is not encrypted, which is not allowed"):
            store.get(key, 0, 3)
        with pytest.raises(DamagedObjectError, match="it is not encrypted, which is not allowed"):
            store.get_all(key)
    with pytest.raises(DamagedObjectError, match="its stored form is empty"):
        store.get_all("empty")
    keys.keys = some_keys(reads_plaintext=True).keys
    sizes = {info.key: info.size for info in store.list()}
    assert sizes == {"plain": len(payload), "short": 3, "empty": 0, "secret": len(payload)}
    for key in ("plain", "secret"):
        assert store.size(key) == len(payload)
        assert store.get_all(key) == payload
        assert store.get(key, CELL_SIZE + 9, 100) == payload[CELL_SIZE + 9 : CELL_SIZE + 109]
    assert store.get_all("empty") == b""
    assert store.size("short") == 3
    with pytest.raises(ShortReadError):
        store.get("empty", 0, 1)
    with pytest.raises(ObjectNotFoundError):
        store.size("none")


def test_the_kind_of_an_object_is_forgotten_with_it() -> None:
    store = opened(some_keys(reads_plaintext=True))
    store.inner.put("k", [b"plain"])
    assert store.get("k", 0, 5) == b"plain"
    store.delete(["k"])
    store.put("k", [b"secret"])
    assert store.get("k", 0, 6) == b"secret"


def test_an_object_that_is_never_encrypted() -> None:
    store = EncryptedStore(MemoryStore(), some_keys(), plain={"cluster.json"})
    store.put("cluster.json", [b"text"])
    assert store.inner.get_all("cluster.json") == b"text"
    assert store.get("cluster.json", 1, 2) == b"ex"
    assert store.get_all("cluster.json") == b"text"
    assert [store.size("cluster.json"), *(info.size for info in store.list())] == [4, 4]


def test_the_format_stays_as_it_is() -> None:
    """Existing objects must remain readable: this test reads one using only the key and none of our code."""
    payload = contents(CELL_SIZE + 100)
    sealed = bytes(seal("a/name", [payload], "k1", made_up("k1"), bytes(range(24))))
    assert len(sealed) == 2 * 64 + len(payload)
    extracted = hmac.digest(bytes(range(24)), made_up("k1"), "sha256")
    key = hmac.digest(extracted, b"lacuna object v1\0a/name\1", "sha256")
    found = b""
    for number, begin in enumerate((0, 65_600)):
        cell = sealed[begin : begin + 65_600]
        assert cell[:48] == b"\x93LcnE\n\1" + bytes([number]) + b"k1".ljust(16, b"\0") + bytes(
            range(24)
        )
        found += AESGCM(key).decrypt(number.to_bytes(12, "big"), cell[48:], cell[:48])
    assert found == payload
