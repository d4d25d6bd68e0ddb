"""Tests what gRPC adds: lost sessions, reconnects, batches and deadlines."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lacuna.controlplane import serving
from lacuna.controlplane.client import (
    ControlPlaneUnavailable,
    GrpcClient,
    SessionLimits,
    session,
)
from lacuna.controlplane.client.grpc import addresses_in
from lacuna.controlplane.client.streams import WatchedStream
from lacuna.controlplane.journal.journal import JournalBatch
from lacuna.controlplane.service import LoneControlPlane, Server, ServiceSettings
from lacuna.controlplane.session import RuntimeSession
from lacuna.controlplane.shared import contract
from lacuna.controlplane.v1.control_pb2 import (
    Command,
    Contract,
    SessionRequest,
    SessionResponse,
)
from tests.controlplane.runtime.rig import (
    Rig,
    base_offset,
    commit,
    create_topic,
    created,
    heartbeat,
    join,
)


class Wire:
    """A rig behind a unix socket that can be cut and restored."""

    def __init__(self, address: str) -> None:
        self.rig = Rig()
        self.address = address
        self.server: Server | None = None
        self.clients: list[GrpcClient] = []
        self.pauses: list[float] = []

    async def up(self, settings: ServiceSettings | None = None) -> None:
        if self.server is None:
            await self.rig.runtime.start()
        else:
            await self.rig.restart()
        self.server = Server(
            LoneControlPlane(self.rig.runtime), settings or ServiceSettings(stop_grace=0.0)
        )
        await self.server.start(self.address)

    async def down(self) -> None:
        assert self.server is not None
        await self.server.stop()
        await self.rig.runtime.close()

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(min(seconds, 0.01))

    def client(self, give_up_after: float = 60.0, **bounds: int) -> GrpcClient:
        settings = SessionLimits(give_up_after=give_up_after, **bounds)
        client = GrpcClient(self.address, lambda: 0.5, settings, self._sleep)
        self.clients.append(client)
        return client

    async def connected(self, give_up_after: float = 60.0, **bounds: int) -> GrpcClient:
        client = self.client(**bounds)
        client.start()
        await client.cluster.ready()
        client._limits = replace(client._limits, give_up_after=give_up_after)
        return client


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    wire = Wire(f"unix:{tmp_path}/socket")
    yield wire
    for client in wire.clients:
        await client.close()
    if wire.server is not None:
        await wire.down()


async def stale(client: GrpcClient) -> None:
    while client.cluster.is_current:
        await asyncio.sleep(0.001)


async def current(client: GrpcClient) -> None:
    while not client.cluster.is_current:
        await asyncio.sleep(0.001)


async def test_a_client_does_not_go_on_with_a_journal_that_is_older(wire: Wire) -> None:
    """It waits until the journal reaches or passes the client's last answer."""
    await wire.up()
    client = await wire.connected(give_up_after=0.2)
    await created(client, "a")
    older = list(wire.rig.memory._batches)
    await created(client, "b")
    reached = client.journal_position
    whole = list(wire.rig.memory._batches)
    assert whole[-1].position == reached > older[-1].position

    await wire.down()
    put_back(wire.rig, older)
    await wire.up()
    ends = f"ends at position {older[-1].position}, but had reached {reached}:"
    while ends not in await refusal(client):
        await asyncio.sleep(0.001)
    assert not client.cluster.is_current

    await wire.down()
    put_back(wire.rig, whole)
    await wire.up()
    await current(client)
    await client.call(heartbeat())


async def test_a_control_plane_of_a_later_contract_is_left(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client waits until a control plane supports its version, for example after an upgrade of the agent."""
    await wire.up()
    later = Contract(newest=3, oldest=2)
    with monkeypatch.context() as patched:
        patched.setattr(serving, "own_contract", lambda: later)
        client = wire.client(give_up_after=0.2)
        client.start()
        expected = (
            "it supports versions 2 to 3 of the contract between control planes and agents, while this process "
            "supports 1 to 1: upgrade this process"
        )
        while expected not in await refusal(client):
            await asyncio.sleep(0.001)
    await current(client)


async def test_a_client_of_an_earlier_contract_is_told_so(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier clients do not check the contract themselves."""
    monkeypatch.setattr(contract, "OLDEST", 2)
    monkeypatch.setattr(contract, "NEWEST", 3)
    monkeypatch.setattr(session, "own_contract", lambda: Contract(newest=1, oldest=1))
    monkeypatch.setattr(session, "why_not", lambda _: "")
    await wire.up()
    client = wire.client(give_up_after=0.2)
    client.start()
    while "this client is not compatible: it supports versions 1 to 1" not in (
        said := await refusal(client)
    ):
        await asyncio.sleep(0.001)
    assert "while this process supports 2 to 3: upgrade the other one" in said


def test_spaces_between_addresses_are_no_part_of_them() -> None:
    assert addresses_in("a:7070, b:7070 ,c:7070") == ["a:7070", "b:7070", "c:7070"]
    assert addresses_in("unix:/a, b") == ["unix:/a, b"]


async def refusal(client: GrpcClient) -> str:
    with pytest.raises(ControlPlaneUnavailable) as caught:
        await client.call(heartbeat())
    return str(caught.value)


def put_back(rig: Rig, batches: list[JournalBatch]) -> None:
    rig.memory._batches = list(batches)
    rig.memory._position = batches[-1].position


async def test_a_client_that_comes_first_waits_for_the_control_plane(wire: Wire) -> None:
    client = wire.client()
    client.start()
    calls = [asyncio.ensure_future(client.call(heartbeat())) for _ in range(3)]
    view = client.partition(bytes(16), 0)
    while not wire.pauses:
        await asyncio.sleep(0.001)
    await wire.up()
    for reply in await asyncio.gather(*calls):
        assert reply.HasField("heartbeat_answered")
    await view.ready()


async def test_after_a_restart_views_are_resynced_before_they_serve(wire: Wire) -> None:
    """S3: changes may have been missed while there was no session."""
    await wire.up()
    client, other = await wire.connected(), await wire.connected()
    topic_id = await created(client)
    view = client.partition(topic_id, 0)
    await view.ready()
    await client.call(commit(topic_id))
    await wire.down()
    await asyncio.gather(stale(client), stale(other))
    assert not view.is_current
    assert view.high_watermark == 1
    await wire.up()
    await other.call(commit(topic_id))
    await view.ready()
    await client.call(heartbeat())
    assert view.high_watermark == 2
    assert client.cluster.is_current
    await client.call(commit(topic_id))
    assert view.high_watermark == 3


async def test_a_session_that_can_send_nothing_more_ends_and_another_is_made(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await wire.up()
    client = await wire.connected()
    topic_id = await created(client)
    view = client.partition(topic_id, 0)
    await view.ready()
    parked = asyncio.ensure_future(client.call(join()))
    await client.call(heartbeat())
    next_request, failures = client._next_request, [ValueError("no such field")]

    def failing() -> SessionRequest:
        request = next_request()
        if failures:
            raise failures.pop()
        return request

    monkeypatch.setattr(client, "_next_request", failing)
    async with asyncio.timeout(60):
        await client.call(heartbeat())
        with pytest.raises(ControlPlaneUnavailable, match="no such field"):
            await parked
        await client.call(commit(topic_id))
        await view.ready()
        assert view.high_watermark == 1
    (record,) = caplog.records
    assert "a new one will be opened" in record.message


async def test_calls_that_were_sent_fail_and_later_ones_wait(wire: Wire) -> None:
    """The effect of a command that was sent is unknown. A command that was not sent had no effect."""
    await wire.up()
    client = await wire.connected()
    topic_id = await created(client)
    sent = asyncio.ensure_future(client.call(join()))
    await client.call(heartbeat())
    await wire.down()
    with pytest.raises(ControlPlaneUnavailable):
        await sent
    unsent = asyncio.ensure_future(client.call(commit(topic_id)))
    while len(wire.pauses) < 3:
        await asyncio.sleep(0.001)
    assert not unsent.done()
    await wire.up()
    assert base_offset(await unsent) == 0


async def test_what_waits_for_a_session_can_be_given_up(wire: Wire) -> None:
    """A hidden agent must not run requests that clients have since sent to others. Sent calls stay in flight."""
    await wire.up()
    client = await wire.connected()
    topic_id = await created(client)
    parked = asyncio.ensure_future(client.call(join()))
    await client.call(heartbeat())
    unsent = asyncio.ensure_future(client.call(commit(topic_id)))
    await asyncio.sleep(0)
    client.give_up_unsent("others were named")
    with pytest.raises(ControlPlaneUnavailable, match="others were named"):
        await unsent
    assert base_offset(await client.call(commit(topic_id))) == 0, "it was not sent"
    assert not parked.done()
    parked.cancel()


async def test_nothing_is_sent_before_the_snapshot(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats precede a slow journal's snapshot. An agent that learns it is hidden drops waiting calls (ADR 18)."""
    await wire.up()
    heard: list[SessionResponse] = []
    submitted: list[str | None] = []
    read, submit = WatchedStream.read, wire.rig.runtime.submit

    async def noted(stream: WatchedStream) -> SessionResponse:
        heard.append(await read(stream))
        return heard[-1]

    def counted(session: RuntimeSession, commands: Sequence[Command]) -> None:
        submitted.extend(command.WhichOneof("verb") for command in commands)
        submit(session, commands)

    monkeypatch.setattr(WatchedStream, "read", noted)
    monkeypatch.setattr(wire.rig.runtime, "submit", counted)
    monkeypatch.setattr(serving, "BEAT_SECONDS", 0.01)
    client = wire.client()
    client.cluster.add_listener(lambda: client.give_up_unsent("others were named"))
    late = asyncio.ensure_future(client.call(join()))
    async with stalled_journal(wire):
        submitted.clear()
        client.start()
        while len(heard) < 20:
            await asyncio.sleep(0.001)
        assert not any(response.cluster for response in heard)
        assert submitted == []
    with pytest.raises(ControlPlaneUnavailable, match="others were named"):
        await late
    await client.call(heartbeat())
    assert submitted == ["heartbeat"]


async def test_calls_do_not_wait_for_ever_for_a_journal(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wire.up()
    monkeypatch.setattr(serving, "BEAT_SECONDS", 0.01)
    client = wire.client(give_up_after=0.05)
    async with stalled_journal(wire):
        client.start()
        async with asyncio.timeout(60):
            while "is the leader, but is waiting for its journal" not in await refusal(client):
                await asyncio.sleep(0.001)
    await current(client)
    await client.call(heartbeat())


@asynccontextmanager
async def stalled_journal(wire: Wire) -> AsyncIterator[None]:
    """Run the body while the journal is busy with a command."""
    creator, memory = wire.rig.client(), wire.rig.memory
    await creator.cluster.ready()
    memory.is_held = True
    creating = asyncio.ensure_future(creator.call(create_topic("a")))
    while not wire.rig.runtime.held_count:
        await asyncio.sleep(0.001)
    try:
        yield
    finally:
        memory.is_held = False
        memory.release()
        await creating


async def test_a_call_given_up_before_it_was_sent_is_not_sent(wire: Wire) -> None:
    client = wire.client()
    client.start()
    calls = [asyncio.ensure_future(client.call(join(group))) for group in ("a", "b")]
    await asyncio.sleep(0)
    calls[0].cancel()
    await asyncio.wait([calls[0]])
    await wire.up()
    await client.call(heartbeat())
    assert list(wire.rig.state.groups.live.groups) == ["b"]
    calls[1].cancel()
    await asyncio.wait([calls[1]])


async def test_without_a_control_plane_for_long_calls_fail_at_once(wire: Wire) -> None:
    client = wire.client(give_up_after=0.05)
    client.start()
    waiting = [
        client.call(heartbeat()),
        client.cluster.ready(),
        client.partition(bytes(16), 0).ready(),
    ]
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, ControlPlaneUnavailable)
        assert "check that one is running" in str(result)
    while "check that one is running" in str(client._failure):
        await asyncio.sleep(0.001)
    with pytest.raises(ControlPlaneUnavailable, match="no control plane answers at unix:"):
        await client.call(heartbeat())
    await wire.up()
    await current(client)
    await client.call(heartbeat())
    await client.partition(bytes(16), 0).ready()


async def test_pauses_grow_to_a_bound_and_begin_anew(wire: Wire) -> None:
    """Half of each pause is fixed and half is random, so that clients do not reconnect in step."""
    client = wire.client()
    client.start()
    while len(wire.pauses) < 10:
        await asyncio.sleep(0.001)
    expected = [min(0.5, 0.02 * 2**failures) * 0.75 for failures in range(1, 11)]
    assert wire.pauses[:10] == pytest.approx(expected)
    await wire.up()
    await client.cluster.ready()
    wire.pauses.clear()
    await wire.down()
    await stale(client)
    assert wire.pauses[0] == pytest.approx(0.02 * 2 * 0.75)
    await wire.up()


@pytest.mark.slow
async def test_commands_that_gather_go_in_one_message(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wire.up()
    messages: list[int] = []
    submit = wire.rig.runtime.submit

    def counted(session: RuntimeSession, commands: Sequence[Command]) -> None:
        messages.append(len(commands))
        submit(session, commands)

    monkeypatch.setattr(wire.rig.runtime, "submit", counted)
    client = await wire.connected()
    await asyncio.gather(*(client.call(heartbeat()) for _ in range(1_500)))
    assert max(messages) == 1_000
    assert len(messages) <= 4
    messages.clear()
    small = await wire.connected(max_message_bytes=40)
    await asyncio.gather(*(small.call(heartbeat()) for _ in range(100)))
    assert max(messages) < 20


async def test_a_session_that_reads_too_slowly_is_cut_off_and_resyncs(wire: Wire) -> None:
    """The queue of deltas for a session is bounded."""
    await wire.up(ServiceSettings(stop_grace=0.0, max_outbox=3))
    client = await wire.connected()
    for partition in range(3):
        await client.partition(bytes(16), partition).ready()
    wire.rig.memory.is_held = True
    calls = [asyncio.ensure_future(client.call(heartbeat())) for _ in range(2)]
    await asyncio.gather(*calls)
    calls = [asyncio.ensure_future(client.call(heartbeat())) for _ in range(4)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all("reads too slowly" in str(result) for result in results)
    await client.cluster.ready()
    await client.partition(bytes(16), 1).ready()
    await client.close()


async def test_a_client_that_was_never_started_can_be_closed(wire: Wire) -> None:
    client = wire.client()
    await client.close()
    with pytest.raises(ControlPlaneUnavailable, match="closed"):
        await client.call(heartbeat())


async def test_a_delta_that_cannot_be_fails_the_client_and_not_in_silence(wire: Wire) -> None:
    await wire.up()
    client = await wire.connected()
    topic_id = await created(client)
    view = client.partition(topic_id, 0)
    await view.ready()
    await client.call(commit(topic_id))
    view.extents.append_row((1, 0, 0, 10, 1, 9, 0, -1, -1, 0, 0))
    with pytest.raises(ControlPlaneUnavailable, match="this client has failed: InvariantBroken"):
        await client.call(commit(topic_id))
    with pytest.raises(ControlPlaneUnavailable, match="overlaps the end"):
        await client.call(heartbeat())
    with pytest.raises(ControlPlaneUnavailable, match="overlaps the end"):
        await view.ready()
