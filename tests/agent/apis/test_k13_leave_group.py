"""LeaveGroup over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.groups import LEAVE, _entity, running


@pytest.mark.parametrize("version", range(6))
async def test_leave_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.enter()
        codes = []
        for member_id in ("x", joined.member_id):
            if version < 3:
                answer = await wire.ask(LEAVE, version, group_id="g", member_id=member_id)
                codes.append(int(answer.error_code))
                continue
            member = _entity(
                LEAVE,
                version,
                "MemberIdentity",
                member_id=member_id,
                group_instance_id=None,
                reason="done",
            )
            answer = await wire.ask(LEAVE, version, group_id="g", members=(member,))
            assert answer.error_code == 0
            codes.extend(int(each.error_code) for each in answer.members)
        assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
        empty = await wire.ask(LEAVE, version, group_id="", member_id="x", members=())
        assert empty.error_code == ErrorCode.INVALID_GROUP_ID
