"""JoinGroup and SyncGroup without a control plane, ListGroups of several agents."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.apis.schema import version_of
from controlplane.client import ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import Agent
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.groups_pb2 import GroupsListed, ListedGroup
from tests.agent.harness import (
    RawClient,
    ScriptedControl,
    encode_body,
    encode_request,
    make_context,
    serving,
    snapshot,
)
from tests.agent.requests import requests

VERSIONS = [(11, version) for version in range(10)] + [(14, version) for version in range(6)]
VERBS = {11: "join_group", 14: "sync_group"}


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@pytest.mark.parametrize("is_away", [True, False])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_request_is_answered(
    api_key: int, version: int, is_away: bool, data: st.DataObject
) -> None:
    """Also when nobody can decide it: the client looks for a coordinator again."""
    request = data.draw(requests(api_key, version))
    assert version_of(request) == version

    async def run() -> None:
        control = ScriptedControl()
        if is_away:
            control.answers[VERBS[api_key]] = ControlPlaneUnavailable("away")
        context = make_context(control)
        async with serving(context) as server:
            client = await RawClient.connect(server.port)
            client.send(encode_request(api_key, version, encode_body(request)))
            async with asyncio.timeout(60):
                assert await client.frame()
            await client.close()
        assert context.metrics.requests_failed == 0

    asyncio.run(run())


async def test_each_group_is_listed_by_one_agent() -> None:
    """Clients put the answers of all agents together, and librdkafka does not look for doubles."""
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
