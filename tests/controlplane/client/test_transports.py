"""Tests what a ControlClient guarantees over either transport, on the same runtime."""

import asyncio
import gc
import weakref

import pytest

from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn
from tests.controlplane.runtime.rig import (
    Connect,
    Rig,
    base_offset,
    commit,
    created,
    heartbeat,
    join,
    leave,
    read,
    refused,
)
from tests.controlplane.verbs.cluster import init_of
from tests.doubles.clock import iterations


async def held(rig: Rig, count: int) -> None:
    """Wait until `count` replies and deltas are waiting for the disk."""
    while rig.runtime.held_count < count:
        await asyncio.sleep(0)


async def test_a_session_begins_with_the_cluster(connect: Connect) -> None:
    first = await connect()
    topic_id = await created(first, "a", 3)
    second = await connect()
    assert second.cluster.cluster_id == "cluster"
    assert second.cluster.topics_by_name["a"].topic_id == topic_id
    assert second.cluster.topics_by_id[topic_id].partition_count == 3
    assert second.cluster.version == first.cluster.version == 1


async def test_the_reply_finds_the_views_up_to_date(client: ControlClient) -> None:
    """S2, S3: a client reads its own writes."""
    topic_id = await created(client, "a", 2)
    assert client.cluster.topics_by_name["a"].topic_id == topic_id
    view = client.partition(topic_id, 1)
    await view.ready()
    for offset in range(3):
        reply = await client.call(commit(topic_id, 1))
        assert base_offset(reply) == offset
        assert (view.version, view.high_watermark) == (offset + 2, offset + 1)
        assert len(view.extents) == offset + 1
        assert view.last_stable_offset == offset + 1


async def test_each_call_has_an_id_of_its_own(client: ControlClient) -> None:
    commands = [heartbeat() for _ in range(5)]
    replies = await asyncio.gather(*(client.call(command) for command in commands))
    assert [reply.command_id for reply in replies] == [command.command_id for command in commands]
    assert len({command.command_id for command in commands}) == 5


async def test_commands_are_taken_in_the_order_of_the_calls(client: ControlClient) -> None:
    topic_id = await created(client)
    replies = await asyncio.gather(*(client.call(commit(topic_id)) for _ in range(50)))
    assert [base_offset(reply) for reply in replies] == list(range(50))


async def test_a_refused_command_says_why(client: ControlClient) -> None:
    with pytest.raises(CommandRefused, match="host and port") as caught:
        await client.call(refused())
    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_a_command_without_a_verb_is_refused(client: ControlClient) -> None:
    with pytest.raises(CommandRefused, match="without a verb"):
        await client.call(Command())


async def test_a_read_waits_for_the_write_that_it_saw(rig: Rig, client: ControlClient) -> None:
    """S2: nothing that a client has read can be undone."""
    topic_id = await created(client)
    view = client.partition(topic_id, 0)
    await view.ready()
    rig.memory.is_held = True
    write = asyncio.ensure_future(client.call(commit(topic_id)))
    reads = asyncio.ensure_future(client.call(read(topic_id)))
    await held(rig, 2)
    await iterations()
    assert not write.done()
    assert not reads.done()
    assert view.high_watermark == 0
    rig.let_go()
    reply = await reads
    assert write.done()
    assert reply.partitions_read.partitions[0].high_watermark == 1
    assert view.high_watermark == 1


async def test_adding_partitions_waits_for_the_disk(rig: Rig, client: ControlClient) -> None:
    """S2 without exception (docs/adr/0006): a rejection, and a query after it, wait too."""
    added = TopicPartition(topic_id=await created(client))
    init = init_of("x")
    given = (await client.call(Command(init_producer_id=init))).producer_id_initialized
    rig.memory.is_held = True
    waiting = []
    for producer_id, is_question in (
        (given.producer_id, False),
        (99, False),
        (given.producer_id, True),
    ):
        command = AddPartitionsToTxn(
            transactional_id="x",
            producer_id=producer_id,
            producer_epoch=given.producer_epoch,
            partitions=[added],
            verify_only=is_question,
        )
        call = client.call(Command(add_partitions_to_txn=command))
        waiting.append(asyncio.ensure_future(call))
    await held(rig, 3)
    await iterations()
    assert not any(call.done() for call in waiting)
    rig.let_go()
    replies = [reply.partitions_added_to_txn for reply in await asyncio.gather(*waiting)]
    assert [reply.error_codes[0] for reply in replies] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.NONE,
    ]


async def test_a_parked_command_is_answered_by_a_later_one(connect: Connect) -> None:
    """S26: a join that waits for other members blocks no other command."""
    first, second = await connect(), await connect()
    joined = asyncio.ensure_future(first.call(join()))
    await iterations()
    await first.call(heartbeat())
    assert not joined.done()
    await second.call(leave())
    assert (await joined).group_joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_one_client_sees_what_another_does(connect: Connect) -> None:
    """S3: each delta reaches every watcher and notifies the listeners once."""
    writer, watcher = await connect(), await connect()
    topic_id = await created(writer)
    view = watcher.partition(topic_id, 0)
    await view.ready()
    changed = asyncio.Event()
    versions: list[int] = []

    def listener() -> None:
        versions.append(view.version)
        changed.set()

    view.add_listener(listener)
    await writer.call(commit(topic_id))
    await changed.wait()
    changed.clear()
    await writer.call(commit(topic_id))
    await changed.wait()
    view.remove_listener(listener)
    await writer.call(commit(topic_id))
    await watcher.call(heartbeat())
    assert versions == [2, 3]
    assert view.version == 4


async def test_cluster_listeners_hear_of_topics(connect: Connect) -> None:
    writer, watcher = await connect(), await connect()
    changed = asyncio.Event()
    watcher.cluster.add_listener(changed.set)
    await created(writer, "new")
    await changed.wait()
    assert "new" in watcher.cluster.topics_by_name
    watcher.cluster.remove_listener(changed.set)


async def test_a_listener_that_fails_stops_nothing(client: ControlClient) -> None:
    topic_id = await created(client)
    view = client.partition(topic_id, 0)
    await view.ready()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: reported.append(context["exception"])
    )

    def fails() -> None:
        raise ValueError("a listener's mistake")

    heard: list[int] = []
    view.add_listener(fails)
    view.add_listener(lambda: heard.append(view.version))
    await client.call(commit(topic_id))
    assert [str(error) for error in reported] == ["a listener's mistake"]
    assert heard == [2]


async def test_what_does_not_exist_is_deleted(client: ControlClient) -> None:
    view = client.partition(bytes(16), 7)
    await view.ready()
    assert view.is_deleted


async def test_a_view_that_missed_a_version_resyncs_before_it_serves(
    rig: Rig, client: ControlClient
) -> None:
    """Tests rule S3."""
    topic_id = await created(client)
    view = client.partition(topic_id, 0)
    await view.ready()
    del rig.state.watched[topic_id, 0]
    await client.call(commit(topic_id))
    rig.state.watched[topic_id, 0] = 1
    assert view.version == 1
    await client.call(commit(topic_id))
    await view.ready()
    assert view.version == 3
    assert list(view.extents.base_offsets) == [0, 1]
    await client.call(commit(topic_id))
    assert view.version == 4
    assert rig.state.watched[topic_id, 0] == 1


async def test_views_are_bounded_and_the_least_used_one_goes(rig: Rig, connect: Connect) -> None:
    client = await connect(max_partitions=2)
    topic_id = await created(client, "a", 5)
    views = [client.partition(topic_id, partition) for partition in range(2)]
    for view in views:
        await view.ready()
    client.partition(topic_id, 0)
    third = client.partition(topic_id, 2)
    await third.ready()
    assert [view.is_current for view in views] == [True, False]
    await client.call(commit(topic_id, 0, 1, 2))
    assert [view.high_watermark for view in (*views, third)] == [1, 0, 1]
    assert rig.state.watched == {(topic_id, 0): 1, (topic_id, 2): 1}


async def test_a_view_with_listeners_stays(connect: Connect) -> None:
    client = await connect(max_partitions=1)
    topic_id = await created(client, "a", 3)
    first = client.partition(topic_id, 0)
    await first.ready()
    first.add_listener(lambda: None)
    second = client.partition(topic_id, 1)
    await second.ready()
    await client.partition(topic_id, 2).ready()
    assert first.is_current
    assert not second.is_current


@pytest.mark.slow
async def test_a_view_that_was_given_up_comes_back_as_the_same(connect: Connect) -> None:
    client = await connect(max_partitions=1)
    topic_id = await created(client, "a", 2)
    view = client.partition(topic_id, 0)
    await view.ready()
    await client.partition(topic_id, 1).ready()
    assert not view.is_current
    await client.call(commit(topic_id, 0))
    await view.ready()
    assert view.high_watermark == 1
    await client.partition(topic_id, 1).ready()
    assert client.partition(topic_id, 0) is view
    gone = weakref.ref(view)
    await client.partition(topic_id, 1).ready()
    del view
    gc.collect()
    assert gone() is None


async def test_calls_under_way_are_bounded(connect: Connect) -> None:
    client = await connect(max_calls=2)
    joins = [asyncio.ensure_future(client.call(join(group))) for group in ("a", "b")]
    await iterations()
    with pytest.raises(ControlPlaneUnavailable, match="2 commands are waiting"):
        await client.call(heartbeat())
    for call in joins:
        call.cancel()
    await asyncio.gather(*joins, return_exceptions=True)
    await client.call(heartbeat())


async def test_a_call_that_was_cancelled_disturbs_nobody(connect: Connect) -> None:
    first, second = await connect(), await connect()
    joined = asyncio.ensure_future(first.call(join()))
    await iterations()
    await first.call(heartbeat())
    joined.cancel()
    await asyncio.gather(joined, return_exceptions=True)
    await second.call(leave())
    assert (await first.call(heartbeat())).HasField("heartbeat_answered")


async def test_a_failed_append_ends_every_call(rig: Rig, connect: Connect) -> None:
    """No answer contains anything that may be lost."""
    # Nobody leads afterwards, and what may be sent again waits for somebody until the client gives up.
    first, second = await connect(give_up_after=0.2), await connect(give_up_after=0.2)
    topic_id = await created(first)
    view = second.partition(topic_id, 0)
    await view.ready()
    parked = asyncio.ensure_future(second.call(join()))
    await iterations()
    await second.call(heartbeat())
    rig.memory.is_held = True
    calls = [first.call(commit(topic_id)), first.call(heartbeat())]
    waiting = [parked, *map(asyncio.ensure_future, calls)]
    await held(rig, 2)
    rig.memory.release(OSError("the disk is gone"))
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, ControlPlaneUnavailable)
        assert "the disk is gone" in str(result)
    assert view.high_watermark == 0
    assert not view.is_current
    assert [str(error) for error in rig.fatal] == ["the disk is gone"]


async def test_a_closed_client_fails_its_calls(connect: Connect, rig: Rig) -> None:
    client = await connect()
    joined = asyncio.ensure_future(client.call(join()))
    await iterations()
    await client.call(heartbeat())
    await client.close()
    await client.close()
    with pytest.raises(ControlPlaneUnavailable, match="closed"):
        await joined
    with pytest.raises(ControlPlaneUnavailable, match="closed"):
        await client.call(heartbeat())
    with pytest.raises(ControlPlaneUnavailable, match="closed"):
        await client.partition(bytes(16), 0).ready()


async def test_who_waited_in_a_lost_session_is_forgotten(connect: Connect, rig: Rig) -> None:
    """S26: the control plane keeps no reply for a member whose connection is lost."""
    client, other = await connect(), await connect()
    joined = asyncio.ensure_future(client.call(join()))
    await iterations()
    topic_id = await created(client)
    await client.partition(topic_id, 0).ready()
    assert rig.state.groups.live.parked
    await client.close()
    while rig.state.groups.live.parked:
        await asyncio.sleep(0)
    assert not rig.state.watched
    await other.call(leave())
    assert isinstance(
        (await asyncio.gather(joined, return_exceptions=True))[0], ControlPlaneUnavailable
    )


async def test_who_no_longer_waits_for_a_view_disturbs_nobody(rig: Rig, connect: Connect) -> None:
    client = await connect()
    topic_id = await created(client)
    rig.memory.is_held = True
    write = asyncio.ensure_future(client.call(commit(topic_id)))
    await held(rig, 1)
    view = client.partition(topic_id, 0)
    waiting = [asyncio.ensure_future(view.ready()) for _ in range(3)]
    await iterations()
    waiting[0].cancel()
    await iterations()
    rig.let_go()
    await asyncio.gather(*waiting[1:], write)
    assert waiting[0].cancelled()
    assert view.high_watermark == 1


async def test_a_call_cancelled_as_its_reply_comes_is_cancelled(client: ControlClient) -> None:
    topic_id = await created(client)
    calls = [asyncio.ensure_future(client.call(commit(topic_id))) for _ in range(2)]
    await asyncio.sleep(0)
    calls[0].cancel()
    assert base_offset(await calls[1]) in (0, 1)
    assert calls[0].cancelled()
