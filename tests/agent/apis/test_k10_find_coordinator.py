"""FindCoordinator over the wire: every version, and errors."""

from typing import Any

import pytest

from tests.agent.apis.clusters import Setup


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator(setup: Setup, version: int) -> None:
    """Several keys per request from v4 on (KIP-699)."""
    node = setup.running.context.lease.node_id

    async def find(kind: int) -> tuple[int, int]:
        fields: dict[str, Any] = {"key_type": kind} if version else {}
        if version >= 4:
            answer = await setup.ask(10, version, **fields, coordinator_keys=("a", "b"))
            assert [each.key for each in answer.coordinators] == ["a", "b"]
            (found,) = {(each.node_id, each.error_code) for each in answer.coordinators}
            return found
        answer = await setup.ask(10, version, **fields, key="a")
        return answer.node_id, answer.error_code

    assert await find(0) == (node, 0)
    if version:
        assert await find(1) == (node, 0)
        assert await find(2) == (-1, 42)
