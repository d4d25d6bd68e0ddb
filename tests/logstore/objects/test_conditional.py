"""Tests the behaviour that all conditional stores share: in memory, and S3 on moto's server."""

import threading
from collections.abc import Iterator

import pytest

from lacuna.logstore.objects import (
    ConditionalStore,
    ConditionFailedError,
    InvalidKeyError,
    MemoryStore,
    ObjectNotFoundError,
    StoreMisconfiguredError,
    VersionedObject,
    open_conditional_store,
)
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore
from lacuna.logstore.objects.s3 import S3Store
from lacuna.logstore.objects.url import holds_journals
from tests.doubles.keys import some_keys


@pytest.fixture(params=["memory", "s3", "encrypted memory", "encrypted s3"])
def store(request: pytest.FixtureRequest) -> Iterator[ConditionalStore]:
    opened: ConditionalStore
    is_memory = request.param.endswith("memory")
    opened = MemoryStore() if is_memory else request.getfixturevalue("open_s3")()
    if request.param.startswith("encrypted"):
        opened = EncryptedConditionalStore(opened, some_keys())
    assert isinstance(opened, ConditionalStore)
    yield opened
    opened.close()


def test_an_object_is_created_once(store: ConditionalStore) -> None:
    etag = store.create("k", b"first")
    for other in (b"second", b"first"):
        with pytest.raises(ConditionFailedError, match="'k' already exists, or has changed"):
            store.create("k", other)
    assert store.load("k") == VersionedObject(b"first", etag)
    assert store.get_all("k") == b"first"


def test_an_object_is_replaced_as_it_was_read(store: ConditionalStore) -> None:
    first = store.create("k", b"first")
    second = store.replace("k", b"second", first)
    assert second != first
    with pytest.raises(ConditionFailedError):
        store.replace("k", b"third", first)
    assert store.load("k") == VersionedObject(b"second", second)
    assert store.replace("k", b"third", second) == store.load("k").etag


def test_what_is_not_there_is_neither_loaded_nor_replaced(store: ConditionalStore) -> None:
    etag = store.create("k", b"first")
    store.delete(["k"])
    with pytest.raises(ObjectNotFoundError):
        store.replace("k", b"second", etag)
    with pytest.raises(ObjectNotFoundError):
        store.load("k")
    with pytest.raises(InvalidKeyError):
        store.create("/", b"")
    with pytest.raises(InvalidKeyError):
        store.replace("/", b"", etag)


def test_of_several_at_a_time_one_succeeds(store: ConditionalStore) -> None:
    etag = store.create("old", b"old")
    outcomes: list[str] = []
    begin = threading.Barrier(8)

    def write(number: int) -> None:
        begin.wait()
        data = b"%d" % number
        try:
            outcomes.append(store.create("new", data))
        except ConditionFailedError:
            outcomes.append("")
        try:
            outcomes.append(store.replace("old", data, etag))
        except ConditionFailedError:
            outcomes.append("")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 16
    assert sorted(filter(None, outcomes)) == sorted(
        [store.load("new").etag, store.load("old").etag]
    )


def test_a_conditional_store_by_its_url() -> None:
    bucket = open_conditional_store("s3://bucket/prefix?endpoint=http://127.0.0.1:1")
    assert isinstance(bucket, S3Store)
    config = bucket._client.meta.config
    assert (config.retries["total_max_attempts"], config.read_timeout) == (1, 3)
    bucket.close()
    for url in ("file:///data", "memory:"):
        assert not holds_journals(url)
        with pytest.raises(StoreMisconfiguredError, match=r"several machines.*use s3://BUCKET"):
            open_conditional_store(url)
