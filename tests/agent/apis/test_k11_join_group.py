"""JoinGroup over the wire: every version, and errors."""

import asyncio

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.groups import _beat, running


@pytest.mark.parametrize("version", range(10))
async def test_two_members_join_at_every_version(version: int) -> None:
    async with running() as run:
        one, two = await run.connect(), await run.connect()
        first = await one.join(version, "")
        if version >= 4:
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            first = await one.join(version, first.member_id)
        assert first.error_code == 0
        assert first.leader == first.member_id
        pending = await two.join(4, "")
        waiting = asyncio.create_task(two.join(version, pending.member_id))
        while (await _beat(one, 0, first)) == 0:
            await asyncio.sleep(0)
        first = await one.join(version, first.member_id)
        second = await waiting
        assert (first.generation_id, second.generation_id) == (2, 2)
        assert {member.member_id for member in first.members} == {
            first.member_id,
            second.member_id,
        }
        assert second.members == ()
        assert second.leader == first.member_id
        assert first.protocol_name == "range"
        assert first.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_says_no_generation(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        answer = await wire.join(version, "stranger")
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())
        assert answer.protocol_name == (None if version >= 7 else "")
