"""Tests that a bucket journal with encrypted objects rejects changed objects and reads without keys."""

import pytest

from lacuna.controlplane.journal.bucket_calls import Bucket
from lacuna.controlplane.journal.journal import JournalCorrupt, JournalRefused
from lacuna.logstore.objects import ConditionalStore, MemoryStore
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore
from tests.doubles.keys import some_keys

KEY = "journal/manifest"


def bucket(store: ConditionalStore) -> Bucket:
    return Bucket(store, "the bucket", 5.0)


@pytest.fixture
async def stored() -> MemoryStore:
    store = MemoryStore()
    assert await bucket(EncryptedConditionalStore(store, some_keys())).create(KEY, b"it")
    return store


async def test_without_the_keys_it_is_not_taken_for_something_else(stored: MemoryStore) -> None:
    for read in (bucket(stored).load, bucket(stored).read):
        with pytest.raises(JournalRefused, match="the journal is encrypted: name the file"):
            await read(KEY)
    other = bucket(EncryptedConditionalStore(stored, some_keys("other")))
    with pytest.raises(JournalRefused, match="with key 'k1', but the test has only other"):
        await other.load(KEY)


async def test_what_was_changed_is_damage(stored: MemoryStore) -> None:
    data = bytearray(stored.get_all(KEY))
    data[-1] ^= 1
    stored.delete([KEY])
    stored.put(KEY, [data])
    reading = bucket(EncryptedConditionalStore(stored, some_keys()))
    for read in (reading.load, reading.read):
        with pytest.raises(JournalCorrupt, match="'journal/manifest' is damaged at position 0"):
            await read(KEY)
