"""DescribeGroups over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.groups import DESCRIBE, running


@pytest.mark.parametrize("version", range(7))
async def test_describe_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.enter()
        answer = await wire.ask(
            DESCRIBE, version, groups=("g", "no"), include_authorized_operations=True
        )
        group, nobody = answer.groups
        assert (group.group_state, group.protocol_type, group.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (member,) = group.members
        assert (member.member_id, member.client_id) == (joined.member_id, "test")
        assert member.client_host == "/127.0.0.1"
        assert (member.member_metadata, member.member_assignment) == (b"m", b"mine")
        assert (group.authorized_operations > 0) is (version >= 3)
        assert nobody.group_state == "Dead"
        assert nobody.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert (nobody.authorized_operations > 0) is (3 <= version < 6)
