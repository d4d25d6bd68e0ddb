"""ListGroups over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import GroupsListed, ListedGroup
from tests.agent.apis.groups import LIST, running
from tests.agent.harness import (
    RawClient,
    ScriptedControl,
    make_context,
    serving,
    snapshot,
)


@pytest.mark.parametrize("version", range(6))
async def test_list_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        await wire.enter()
        await wire.commit(8, "t", group_id="h")
        answer = await wire.ask(LIST, version, states_filter=(), types_filter=())
        assert answer.error_code == 0
        assert {each.group_id: each.protocol_type for each in answer.groups} == {
            "g": "consumer",
            "h": "",
        }
        if version >= 4:
            answer = await wire.ask(LIST, version, states_filter=("Empty",), types_filter=())
            assert [each.group_id for each in answer.groups] == ["h"]
        if version >= 5:
            assert [each.group_type for each in answer.groups] == ["classic"]


async def test_each_group_is_listed_by_one_agent() -> None:
    """Clients combine the answers of all agents, and librdkafka does not remove duplicates."""
    names = [f"g{number}" for number in range(40)]
    listed = Reply(
        groups_listed=GroupsListed(
            groups=[
                ListedGroup(group_id=name, state="Stable", group_type="classic") for name in names
            ]
        )
    )
    agents = tuple(Agent(node_id=node_id, host="h", port=1) for node_id in (1, 2, 3))
    found: list[str] = []
    for agent in agents:
        control = ScriptedControl()
        control.cluster.apply(snapshot(agents=agents))
        control.answers["list_groups"] = listed
        context = make_context(control)
        context.lease.node_id = agent.node_id
        async with serving(context) as server:
            client = await RawClient.connect(server.port)
            answer = await client.ask(16, 5, states_filter=(), types_filter=())
            await client.close()
        assert answer.error_code == ErrorCode.NONE
        assert 0 < len(answer.groups) < len(names)
        found.extend(group.group_id for group in answer.groups)
    assert sorted(found) == sorted(names)
