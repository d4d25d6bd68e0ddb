"""The guards between requests and handlers when ACLs apply. tests/golden/acls.py lists what each API requires."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from lacuna.agent.apis import discover
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.produce.buffer import NOT_PERSISTED
from lacuna.agent.security.access import Access
from lacuna.agent.security.assignments import CutAssignments
from lacuna.agent.security.listeners import Listener
from lacuna.agent.security.settings import SecuritySettings
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.acls import Operation, PatternType, Permission, ResourceType
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import Authorizer
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import (
    CONSUMER_OFFSETS,
    INTERNAL_BY_NAME,
    partition_of,
)
from lacuna.controlplane.shared.principal import ANONYMOUS
from lacuna.controlplane.shared.security import AclEntry, Security
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeat
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, SecurityChanges
from lacuna.wire.messages.consumer_groups import Assignment, TopicPartitions
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient, ScriptedControl, client_of, make_context
from tests.agent.plane import cluster
from tests.messages import nested

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ_T: Final = AclEntry(
    ResourceType.TOPIC,
    "t",
    PatternType.LITERAL,
    str(ANONYMOUS),
    "*",
    Operation.READ,
    Permission.ALLOW,
)


@pytest.fixture
async def guarded() -> AsyncIterator[Setup]:
    """A cluster in which no client may do anything, unless ACLs allow it."""
    security = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:admin")
    async with (
        cluster(security=security) as running,
        RawClient.connected(running.server.port) as client,
    ):
        yield Setup(running, client)


async def change(setup: Setup, added: bool, acl: AclEntry = READ_T) -> None:
    changed = [acl.message()]
    changes = SecurityChanges(
        added_acls=changed if added else [], removed_acls=[] if added else changed
    )
    await setup.running.control.call(Command(alter_security=AlterSecurity(changes=changes)))


def test_no_api_is_open_by_mistake() -> None:
    """The open APIs are those that clients begin with, those for a token's owner or renewer, telemetry, which stores
    nothing, and shared reads between agents.
    """
    unguarded = {api.name for api in discover().apis() if api.guard is None}
    assert unguarded == {
        *("ApiVersions", "SaslHandshake", "SaslAuthenticate"),
        *("RenewDelegationToken", "ExpireDelegationToken"),
        *("GetTelemetrySubscriptions", "PushTelemetry", "ReadChunk"),
    }


async def fetch(setup: Setup, session: int, epoch: int, *topics: str) -> Any:
    asked = nested(1, 12, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1000)
    return await setup.ask(
        1,
        12,
        session_id=session,
        session_epoch=epoch,
        max_bytes=1000,
        topics=tuple(
            nested(1, 12, "FetchTopic", topic=each, partitions=(asked,)) for each in topics
        ),
    )


def errors(answer: Any) -> dict[str, int]:
    return {topic.topic: each.error_code for topic in answer.responses for each in topic.partitions}


async def test_a_fetch_session_heeds_changes_of_acls(guarded: Setup) -> None:
    """Later fetches of a session name no topics, but each is still checked."""
    await guarded.create("t")
    await guarded.create("u")
    await change(guarded, added=True)
    opened = await fetch(guarded, 0, 0, "t", "u")
    assert errors(opened) == {"t": ErrorCode.NONE, "u": DENIED}
    session = opened.session_id
    assert errors(await fetch(guarded, session, 1)) == {"u": DENIED}
    await change(guarded, added=False)
    assert errors(await fetch(guarded, session, 2)) == {"t": DENIED, "u": DENIED}
    await change(guarded, added=True)
    assert errors(await fetch(guarded, session, 3)) == {"t": ErrorCode.NONE, "u": DENIED}


async def test_old_fetches_are_checked_too(guarded: Setup) -> None:
    """Fetch v2 returns records as message sets."""
    await guarded.create("t")
    asked = nested(1, 2, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = (nested(1, 2, "FetchTopic", topic="t", partitions=(asked,)),)
    denied = await guarded.ask(1, 2, topics=topics, replica_id=-1)
    assert errors(denied) == {"t": DENIED}
    await change(guarded, added=True)
    allowed = await guarded.ask(1, 2, topics=topics, replica_id=-1)
    assert errors(allowed) == {"t": ErrorCode.NONE}


async def test_an_expression_finds_no_topics_that_are_hidden(guarded: Setup) -> None:
    """A member (KIP-848) that subscribes to everything is assigned only topics that it may describe."""
    for name in ("t", "u"):
        await guarded.create(name)
    await change(guarded, added=True)
    await change(
        guarded, True, READ_T._replace(resource_type=ResourceType.GROUP, resource_name="g")
    )
    joined = await guarded.ask(
        68,
        1,
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_regex=".*",
        topic_partitions=(),
    )
    assert joined.error_code == ErrorCode.NONE
    topics = guarded.running.control.cluster.topics_by_name
    assigned = [each.topic_id for each in joined.assignment.topic_partitions]
    assert assigned == [topics["t"].topic_id]


GROUP_READ: Final = READ_T._replace(resource_type=ResourceType.GROUP, resource_name="g")


async def beat(setup: Setup, epoch: int, **fields: Any) -> Any:
    answer = await setup.ask(
        68, 1, group_id="g", member_id="m", member_epoch=epoch, rebalance_timeout_ms=-1, **fields
    )
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def assigned(setup: Setup, answer: Any) -> set[str] | None:
    """Return the topics of the assignment in an answer, if any."""
    if answer.assignment is None:
        return None
    topics = setup.running.control.cluster.topics_by_id
    return {topics[each.topic_id].name for each in answer.assignment.topic_partitions}


async def test_a_member_is_told_more_of_its_assignment_once_acls_allow_it(guarded: Setup) -> None:
    """Its whole expression is already assigned, so nothing else would trigger another message."""
    for name in ("t", "u", "v"):
        await guarded.create(name)
    await change(guarded, added=True)
    await change(guarded, True, GROUP_READ)
    joining = {"subscribed_topic_regex": ".*", "topic_partitions": ()}
    joined = await guarded.ask(
        68, 1, group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, **joining
    )
    assert assigned(guarded, joined) == {"t"}
    epoch = joined.member_epoch
    assert assigned(guarded, await beat(guarded, epoch)) is None
    await change(guarded, True, READ_T._replace(resource_name="unrelated"))
    assert assigned(guarded, await beat(guarded, epoch)) is None
    for name, expected in (("u", {"t", "u"}), ("v", {"t", "u", "v"})):
        await change(guarded, True, READ_T._replace(resource_name=name))
        assert assigned(guarded, await beat(guarded, epoch)) == expected
        assert assigned(guarded, await beat(guarded, epoch)) is None


async def test_nothing_is_remembered_of_a_member_that_has_left(guarded: Setup) -> None:
    await guarded.create("t")
    await change(guarded, True, GROUP_READ)
    joining = {"subscribed_topic_regex": ".*", "topic_partitions": ()}
    for _ in range(2):
        joined = await guarded.ask(
            68, 1, group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, **joining
        )
        assert assigned(guarded, joined) == set()
        left = await beat(guarded, -1)
        await change(guarded, added=True)
        assert assigned(guarded, left) is None
        await change(guarded, added=False)


def test_what_is_remembered_of_assignments_has_a_bound() -> None:
    """The latest ones are kept; an earlier member waits for its next change."""
    cut = CutAssignments()
    whole = Assignment([TopicPartitions(b"t" * 16, range(400_000))])
    for member in ("a", "b", "c"):
        assert cut.shown(("g", member), whole, lambda _: False, 1) == Assignment([])
    told = [cut.shown(("g", each), None, lambda _: True, 2) for each in ("a", "b", "c")]
    assert told == [None, whole, whole]
    assert cut.shown(("g", "b"), None, lambda _: False, 3) is None


async def test_a_group_is_described_if_what_its_members_have_may_be(guarded: Setup) -> None:
    """Topics that members only subscribe to, such as missing ones, do not count."""
    await guarded.create("t")
    for acl in (READ_T, GROUP_READ):
        await change(guarded, True, acl)

    async def described() -> tuple[int, list[str]]:
        (group,) = (await guarded.ask(69, 1, group_ids=("g",))).groups
        return group.error_code, [each.member_id for each in group.members]

    joining = ConsumerGroupHeartbeat(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        has_topic_names=True,
        topic_names=["t", "u"],
        has_owned=True,
    )
    control = guarded.running.control
    await control.call(Command(consumer_group_heartbeat=joining))
    assert await described() == (ErrorCode.NONE, ["m"])
    await guarded.create("u")
    joining.member_id = "n"
    await control.call(Command(consumer_group_heartbeat=joining))
    assert await described() == (DENIED, [])


@pytest.mark.slow
@pytest.mark.parametrize("is_super", [True, False])
async def test_internal_topics_are_read_by_id_and_listed(is_super: bool) -> None:
    """No list of the control plane contains them (ADR 43)."""
    who = "User:ANONYMOUS" if is_super else "User:admin"
    security = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users=who)
    async with (
        cluster(security=security) as running,
        RawClient.connected(running.server.port) as client,
    ):
        setup = Setup(running, client)
        await setup.create("t")
        committed = CommittedOffset(
            partition=TopicPartition(topic_id=running.control.cluster.topics_by_name["t"].topic_id)
        )
        commit = OffsetCommit(group_id="g", generation_id=-1, offsets=[committed])
        await running.control.call(Command(offset_commit=commit))
        async with asyncio.timeout(60):
            while not running.control.cluster.internal_topics:
                await setup.ask(18, 0)
        topic = INTERNAL_BY_NAME[CONSUMER_OFFSETS]
        part = nested(
            1, 16, "FetchPartition", partition=partition_of("g"), partition_max_bytes=1000
        )
        asked = (nested(1, 16, "FetchTopic", topic_id=topic.topic_id, partitions=(part,)),)

        async def fetched() -> tuple[int, bool]:
            answer = await setup.ask(1, 16, session_epoch=-1, max_bytes=1000, topics=asked)
            (found,) = answer.responses[0].partitions
            return found.error_code, bool(found.records)

        async def listed() -> list[str]:
            answer = await setup.ask(75, 0, topics=(), response_partition_limit=100)
            return [each.name for each in answer.topics]

        if not is_super:
            assert await fetched() == (DENIED, False)
            assert await listed() == []
            await change(setup, True, READ_T._replace(resource_name=CONSUMER_OFFSETS))
        assert await fetched() == (ErrorCode.NONE, True)
        assert await listed() == ([CONSUMER_OFFSETS, "t"] if is_super else [CONSUMER_OFFSETS])


@pytest.mark.slow
async def test_nothing_is_decided_before_the_acls_are_known() -> None:
    """An agent that has not seen the cluster yet rejects requests that could be overtaken; they are sent again."""
    access = Access(
        SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS"),
        (Listener(),),
        Security(),
        SystemWallClock(),
    )
    context = make_context(ScriptedControl(), access=access)
    async with client_of(context) as client:
        part = nested(0, 9, "PartitionProduceData", index_=0, records=memoryview(b"x"))
        topic = nested(0, 9, "TopicProduceData", name="t", partition_data=(part,))
        answer = await client.ask(0, 9, acks=1, topic_data=(topic,))
        (found,) = answer.responses[0].partition_responses
        assert found.error_code == NOT_PERSISTED.error_code
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.ask(3, 9, topics=None)


async def test_denials_are_logged_and_counted(
    guarded: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is logged once, in Kafka's format. A client that gets part of a list was not denied anything."""
    caplog.set_level(logging.INFO, "lacuna.authorizer")
    await guarded.create("t")
    metrics = guarded.running.context.metrics
    listed = await guarded.ask(3, 9, topics=None)
    assert (list(listed.topics), metrics.authorizations_denied, caplog.messages) == ([], 0, [])
    for _ in range(3):
        await fetch(guarded, 0, -1, "t")
    assert metrics.authorizations_denied == 3
    (line,) = caplog.messages
    assert line == (
        "Principal = User:ANONYMOUS is Denied operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:t "
        "for request = Fetch based on rule DefaultDeny"
    )


def test_the_log_has_bounds(caplog: pytest.LogCaptureFixture) -> None:
    """A client cannot flood the log, nor start a new line in it."""
    caplog.set_level(logging.INFO, "lacuna.authorizer")
    now = 100.0
    audit = Audit(Authorizer(Security()), lambda: now)
    for number in range(1500):
        audit.denied(ANONYMOUS, "h", Operation.READ, ResourceType.TOPIC, f"\n{number}", "Fetch")
    assert len(caplog.messages) == 1000
    assert not any("\n" in line for line in caplog.messages)
    now = 161.0
    audit.denied(ANONYMOUS, "h", Operation.READ, ResourceType.TOPIC, "new", "Fetch")
    assert caplog.messages[1000] == "500 more denials were not logged in the last minute"
    for ending in "12":  # only the beginning of a long name is shown and remembered
        long = "n" * 1000 + ending
        audit.denied(ANONYMOUS, "h", Operation.READ, ResourceType.TOPIC, long, "Fetch")
    assert len(caplog.messages) == 1003


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"super_users": "User:admin"}, "add --authorizer"),
        ({"allows_without_acls": True}, "add --authorizer"),
        ({"authorizer": STANDARD_AUTHORIZER}, "--super-user User:NAME"),
        ({"authorizer": STANDARD_AUTHORIZER, "super_users": "admin"}, "User:alice"),
    ],
)
def test_half_of_an_authorizer_does_not_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Access(SecuritySettings(**settings), (Listener(),), Security(), SystemWallClock())
