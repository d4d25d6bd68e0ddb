"""DeleteGroups over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.groups import DELETE, running


@pytest.mark.parametrize("version", range(3))
async def test_delete_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        await wire.enter()
        await wire.commit(8, "t", group_id="h")
        answer = await wire.ask(DELETE, version, groups_names=("g", "h", "no"))
        assert [int(each.error_code) for each in answer.results] == [
            ErrorCode.NON_EMPTY_GROUP,
            0,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
