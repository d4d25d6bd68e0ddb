"""Old clients with any limits read the same records from any log as new ones (S14, S24)."""

from random import Random
from typing import Any

import pytest

from lacuna.agent.fetch.answers import READ_UNCOMMITTED
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import Log, Writer, make_batch, next_offset_of, records_of
from tests.agent.harness import RawClient
from tests.agent.legacy.test_message_sets import fetch, served, values_in
from tests.seeds import seeds

LIMITS = FetchSettings(max_response_bytes=8192, read_ahead_bytes=0)


async def write(log: Log, source: Random) -> None:
    """Write plain and transactional batches of every codec and size, mixed."""
    open_ones: list[Writer] = []
    for number in range(source.randint(1, 40)):
        values = [b"%d" % number * source.randint(1, 300) for _ in range(source.randint(1, 5))]
        codec = source.choice(list(Codec))
        if source.random() < 0.3:
            await log.produce(make_batch(*values, codec=codec))
            continue
        if not open_ones or source.random() < 0.4:
            writer = await log.writer(f"tx{number}")
            open_ones.append(writer)
        else:
            writer = source.choice(open_ones)
        await writer.send(*values, codec=codec)
        if source.random() < 0.6:
            open_ones.remove(writer)
            await writer.end(committed=source.random() < 0.3)
    for writer in open_ones:
        await writer.end(committed=source.random() < 0.3)


async def everything(log: Log) -> list[tuple[int, bytes | None]]:
    """Return everything that read_uncommitted reads."""
    found: list[tuple[int, bytes | None]] = []
    offset = 0
    while (answer := await log.fetch(offset, isolation=READ_UNCOMMITTED)).records:
        found += [record for record in records_of(answer) if record[0] >= offset]
        offset = next_offset_of(answer)
    return found


async def walked(client: RawClient, version: int, size: int) -> list[tuple[int, bytes | None]]:
    """Read like an old client, which moves by records only and asks for more after a partial one."""
    found: list[tuple[int, bytes | None]] = []
    offset, wanted = 0, size
    while True:
        error, watermark, sets = await fetch(client, version, offset, size=wanted)
        assert error == 0
        if not sets:
            return found
        assert version == 3 or len(sets) <= wanted
        records = values_in(sets, offset)
        if not records:
            assert version < 3
            assert len(sets) == wanted
            wanted *= 2
            continue
        found += records
        offset, wanted = records[-1][0] + 1, size
        assert offset <= watermark


@pytest.mark.parametrize("seed", seeds(4, 12))
async def test_s24_walks(seed: int) -> None:
    source = Random(seed)
    async with served(fetch=LIMITS) as it:
        for _ in range(2):
            await write(it.log, source)
            await it.compact()
            expected: list[Any] = await everything(it.log)
            for version in range(4):
                size = source.choice([30, 200, 1000, 100_000])
                assert await walked(it.client, version, size) == expected
