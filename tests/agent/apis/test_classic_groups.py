"""The APIs of classic groups at every version, and their errors.

These are FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups and DeleteGroups.
"""

import asyncio

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import GroupsListed, ListedGroup
from lacuna.wire.messages import groups
from tests.agent.apis.clusters import Setup
from tests.agent.apis.groups import running
from tests.agent.harness import ScriptedControl, client_of, make_context, snapshot


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator(setup: Setup, version: int) -> None:
    """Several keys per request are allowed from v4 on (KIP-699)."""
    node = setup.running.context.lease.node_id

    async def find(kind: int) -> tuple[int, int]:
        asked = groups.FindCoordinatorRequest("a", kind, ("a", "b"))
        answer = await setup.client.call(version, asked)
        if version < 4:
            return answer.node_id, answer.error_code
        assert [each.key for each in answer.coordinators] == ["a", "b"]
        (found,) = {(each.node_id, each.error_code) for each in answer.coordinators}
        return found

    assert await find(0) == (node, 0)
    if version:
        assert await find(1) == (node, 0)
        assert await find(2) == (-1, 42)
        assert await find(3) == (-1, 42)
    if version >= 6:
        asked = groups.FindCoordinatorRequest("", 2, (f"g:{'A' * 22}:0",))
        answer = await setup.client.call(version, asked)
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
        while (await one.beat(0, first)) == 0:
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


@pytest.mark.parametrize("version", range(6))
async def test_sync_and_heartbeat_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        synced = await wire.sync(version, joined, b"mine")
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        assert synced.protocol_name == ("range" if version >= 5 else None)
        assert await wire.beat(min(version, 4), joined) == 0
        stranger = joined._replace(member_id="x")
        assert await wire.beat(min(version, 4), stranger) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_sync_v5_without_a_protocol_is_inconsistent() -> None:
    """Tests KIP-559."""
    async with running() as run:
        wire = await run.connect()
        joined = await wire.join(3, "")
        answer = await wire.sync(5, joined, protocol_name=None)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(6))
async def test_leave_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.enter()
        codes = []
        for member_id in ("x", joined.member_id):
            members = [groups.MemberIdentity(member_id, None, "done")]
            answer = await wire.call(version, groups.LeaveGroupRequest("g", member_id, members))
            if version >= 3:
                assert answer.error_code == 0
                (answer,) = answer.members
            codes.append(int(answer.error_code))
        assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
        empty = await wire.call(version, groups.LeaveGroupRequest("", "x"))
        assert empty.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(7))
async def test_describe_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        joined = await wire.enter()
        answer = await wire.call(version, groups.DescribeGroupsRequest(("g", "no"), True))
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
        answer = await wire.call(version, groups.ListGroupsRequest())
        assert answer.error_code == 0
        assert {each.group_id: each.protocol_type for each in answer.groups} == {
            "g": "consumer",
            "h": "",
        }
        if version >= 4:
            answer = await wire.call(version, groups.ListGroupsRequest(("Empty",)))
            assert [each.group_id for each in answer.groups] == ["h"]
        if version >= 5:
            assert [each.group_type for each in answer.groups] == ["classic"]


async def test_each_group_is_listed_by_one_agent() -> None:
    """Clients combine the answers of all agents, and librdkafka does not remove duplicates."""
    names = [f"g{number}" for number in range(40)]
    rows = [ListedGroup(group_id=name, state="Stable", group_type="classic") for name in names]
    listed = Reply(groups_listed=GroupsListed(groups=rows))
    agents = tuple(Agent(node_id=node_id, host="h", port=1) for node_id in (1, 2, 3))
    found: list[str] = []
    for agent in agents:
        control = ScriptedControl()
        control.cluster.apply(snapshot(agents=agents))
        control.answers["list_groups"] = listed
        context = make_context(control)
        context.lease.node_id = agent.node_id
        async with client_of(context) as client:
            answer = await client.call(5, groups.ListGroupsRequest())
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
        answer = await wire.call(version, groups.DeleteGroupsRequest(("g", "h", "no")))
        assert [int(each.error_code) for each in answer.results] == [
            ErrorCode.NON_EMPTY_GROUP,
            0,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
