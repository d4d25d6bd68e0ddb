"""The APIs of classic groups at every version, and their errors.

These are FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups and DeleteGroups.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import GroupsListed, ListedGroup
from tests.agent.apis.clusters import Setup
from tests.agent.apis.groups import DELETE, DESCRIBE, LEAVE, LIST, _beat, _entity, running
from tests.agent.harness import (
    ScriptedControl,
    client_of,
    encode_request,
    make_context,
    snapshot,
)
from tests.agent.requests import requests
from tests.messages import encode_body


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
        assert await find(3) == (-1, 42)
    if version >= 6:
        key = f"g:{'A' * 22}:0"
        answer = await setup.ask(10, version, key_type=2, coordinator_keys=(key,))
        assert [each.node_id for each in answer.coordinators] == [node]


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


VERSIONS = [(11, version) for version in range(10)] + [(14, version) for version in range(6)]


VERBS = {11: "join_group", 14: "sync_group"}


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@pytest.mark.parametrize("is_away", [True, False])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_any_request_is_answered(
    api_key: int, version: int, is_away: bool, data: st.DataObject
) -> None:
    """This includes requests that cannot be decided; the client then looks for a coordinator again."""
    request = data.draw(requests(api_key, version))

    async def run() -> None:
        control = ScriptedControl()
        if is_away:
            control.answers[VERBS[api_key]] = ControlPlaneUnavailable("away")
        context = make_context(control)
        async with client_of(context) as client:
            client.send(encode_request(api_key, version, encode_body(api_key, version, request)))
            async with asyncio.timeout(60):
                assert await client.frame()
        assert context.metrics.requests_failed == 0

    asyncio.run(run())


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
    """Tests KIP-559."""
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        answer = await wire.sync(5, joined, {}, protocol_name=None)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


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
        async with client_of(context) as client:
            answer = await client.ask(16, 5, states_filter=(), types_filter=())
        assert answer.error_code == ErrorCode.NONE
        assert 0 < len(answer.groups) < len(names)
        found.extend(group.group_id for group in answer.groups)
    assert sorted(found) == sorted(names)


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
