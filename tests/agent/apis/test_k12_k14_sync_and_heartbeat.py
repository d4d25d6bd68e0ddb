"""SyncGroup and Heartbeat over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.groups import _beat, running


@pytest.mark.parametrize("version", range(6))
async def test_sync_and_heartbeat_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        synced = await wire.sync(version, joined, {joined.member_id: b"mine"})
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        assert synced.protocol_name == ("range" if version >= 5 else None)
        assert await _beat(wire, min(version, 4), joined) == 0
        stranger = joined._replace(member_id="x")
        assert await _beat(wire, min(version, 4), stranger) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_sync_v5_without_a_protocol_is_inconsistent() -> None:
    """KIP-559."""
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        answer = await wire.sync(5, joined, {}, protocol_name=None)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
