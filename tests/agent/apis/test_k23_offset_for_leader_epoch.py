"""OffsetForLeaderEpoch: the only leader epoch, and its end (S21)."""

import pytest

from tests.agent.apis.offsets import end_offset, fill
from tests.agent.fetch.log import open_log


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_s21_the_one_leader_epoch_ends_at_the_high_watermark(version: int) -> None:
    async with open_log() as log:
        await fill(log)
        assert await end_offset(log, 0, version=version) == (0, 0, 5)
        assert await end_offset(log, 3, version=version) == (0, -1, -1)
        assert await end_offset(log, -1, version=version) == (0, -1, -1)
        assert await end_offset(log, 0, version=version, current=1) == (75, -1, -1)
        assert await end_offset(log, 0, version=version, partition=9) == (3, -1, -1)
