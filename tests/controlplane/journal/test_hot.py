"""Tests the hot segments of every journal: durable with their append or not at all, and kept until they are dropped."""

import asyncio
from collections.abc import Sequence

import pytest

from lacuna.controlplane.journal.journal import (
    HotSegment,
    Journal,
    JournalBatch,
    JournalFenced,
    Snapshot,
)
from lacuna.logstore.segments.hot import MOST_HOT_BYTES, hot_lease
from tests.controlplane.journal.conftest import Kept

LEASE = hot_lease(7)


def segment(sequence: int, size: int = 16 << 10) -> HotSegment:
    data = (b"segment %d " % sequence * (size // 8 + 1))[:size]
    return HotSegment((LEASE, sequence), data)


async def read(journal: Journal) -> list[JournalBatch]:
    return [batch async for batch in journal.read(0)]


async def put(journal: Journal, token: int, sequences: Sequence[int]) -> None:
    for sequence in sequences:
        await journal.append([b"commit %d" % sequence], token, [segment(sequence)])


async def test_hot_bytes_are_kept_apart_from_the_records(kept: Kept) -> None:
    journal = kept.journal()
    token = (await journal.open(None)).fencing_token
    assert journal.hot == {}
    sent = [segment(1), segment(2, 1), segment(3, MOST_HOT_BYTES)]
    assert await journal.append([b"a", b"b"], token, sent) == 2
    assert await journal.append([b"c"], token) == 3
    for _ in range(2):
        assert [batch.records for batch in await read(journal)] == [[b"a", b"b"], [b"c"]]
        assert journal.hot == {each.key: len(each.data) for each in sent}
        keys = [each.key for each in sent]
        assert await journal.read_hot([*keys, (LEASE, 9)]) == dict(sent)
        assert await journal.read_hot([]) == {}
        await journal.close()
        journal = kept.journal()
        await journal.open(None)
    await journal.close()


async def test_a_fenced_writer_leaves_no_hot_bytes(kept: Kept) -> None:
    journal = kept.journal()
    token = (await journal.open(None)).fencing_token
    with pytest.raises(JournalFenced, match="taken"):
        await journal.append([b"late"], token - 1, [segment(1)])
    assert journal.hot == {}
    await journal.append([b"right"], token, [segment(2)])
    await journal.close()
    journal = kept.journal()
    await journal.open(None)
    assert list(journal.hot) == [(LEASE, 2)]
    assert await journal.read_hot([(LEASE, 1)]) == {}
    await journal.close()


async def test_hot_bytes_of_an_append_that_nobody_waits_for_are_known(kept: Kept) -> None:
    journal = kept.journal()
    token = (await journal.open(None)).fencing_token
    journal.append([b"a"], token, [segment(1)]).cancel()
    async with asyncio.timeout(60):
        while not journal.hot:
            await asyncio.sleep(0)
    assert await journal.read_hot([(LEASE, 1)]) == dict([segment(1)])
    await journal.close()


async def test_what_is_dropped_is_gone_and_stays_gone(kept: Kept) -> None:
    journal = kept.journal()
    token = (await journal.open(None)).fencing_token
    await put(journal, token, range(1, 41))
    await journal.drop_hot([(LEASE, sequence) for sequence in range(3, 39)])
    await journal.drop_hot([(LEASE, 3), (LEASE, 99)])
    left = [(LEASE, sequence) for sequence in (1, 2, 39, 40)]
    assert sorted(journal.hot) == left
    assert await journal.read_hot([(LEASE, 3), (LEASE, 39)]) == dict([segment(39)])
    assert len(await read(journal)) == 40
    await journal.drop_hot(left)
    await journal.close()
    journal = kept.journal()
    await journal.open(None)
    if kept.keeps_drops:
        assert journal.hot == {}
    await journal.drop_hot(list(journal.hot))
    assert journal.hot == {}
    await journal.close()


async def test_a_snapshot_takes_the_records_and_leaves_hot_bytes(kept: Kept) -> None:
    journal = kept.journal()
    token = (await journal.open(None)).fencing_token
    await put(journal, token, range(1, 11))
    await journal.drop_hot([(LEASE, 4)])
    for position in (8, 9):
        await journal.store_snapshot(Snapshot(position, (b"state",)))
    await journal.close()
    journal = kept.journal()
    await journal.open(None)
    live = [segment(sequence) for sequence in range(1, 11) if sequence != 4]
    assert await journal.read_hot([each.key for each in live]) == dict(live)
    await journal.close()
