"""ListConfigResources over the wire: every version, and errors."""

import pytest

from tests.agent.apis.clusters import Setup


@pytest.mark.parametrize("version", range(2))
async def test_list_config_resources(setup: Setup, version: int) -> None:
    """v0 asks only for client metrics subscriptions."""
    await setup.create("t")
    fields = {"resource_types": ()} if version else {}
    answer = await setup.ask(74, version, **fields)
    assert answer.error_code == 0
    named = [
        (each.resource_type, each.resource_name) for each in answer.config_resources if version
    ]
    assert named == ([(2, "t"), (4, "1"), (8, "1")] if version else [])
    assert len(answer.config_resources) == len(named)
