"""The lease (how it is registered, renewed and lost) and segment ids."""

import asyncio
from dataclasses import replace

import pytest

from lacuna.agent.client import Peer, Software
from lacuna.agent.lease import NO_LEASE, AgentLease, NoLeaseError
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.report import clients_of, report_of
from lacuna.agent.security.listeners import Listener
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import MAX_REPORT_BYTES
from lacuna.controlplane.v1.cluster_pb2 import AgentRegistered, ClusterDelta, LeaseRenewed, Outcome
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.logstore.segments.paths import SegmentId
from tests.agent.harness import ScriptedControl, anybody, make_context, snapshot
from tests.doubles.clock import until
from tests.simulation.loop import on_virtual_time


class Setup:
    """A lease of 30 ms, renewed every 10 ms."""

    def __init__(self, settings: AgentSettings | None = None, lease_duration_ms: int = 30) -> None:
        self._lease_duration_ms = lease_duration_ms
        self.control = ScriptedControl()
        self.leases = iter(range(7, 1000))
        self.control.answers["register_agent"] = self.register
        self.control.answers["renew_lease"] = Reply(lease_renewed=LeaseRenewed())
        self.control.answers["release_lease"] = Reply(lease_released=Outcome())
        self.metrics = AgentMetrics()
        self.lease = AgentLease(self.control, settings or AgentSettings(), self.metrics)

    def register(self, command: Command) -> Reply:
        return Reply(
            agent_registered=AgentRegistered(
                node_id=3,
                lease_id=next(self.leases),
                lease_duration_ms=self._lease_duration_ms,
                cluster_id="c",
            )
        )

    def verbs(self) -> list[str]:
        return [str(call.WhichOneof("verb")) for call in self.control.calls]


async def started() -> Setup:
    made = Setup()
    await made.lease.start(9092)
    return made


@on_virtual_time
async def test_registers_the_address_that_clients_reach() -> None:
    setup = await started()
    command = setup.control.calls[0].register_agent
    assert (command.host, command.port, command.zone) == ("127.0.0.1", 9092, "")
    lease = setup.lease
    assert (lease.node_id, lease.lease_id, lease.cluster_id, lease.port) == (3, 7, "c", 9092)
    other = Setup(AgentSettings(listeners=(Listener(advertised=("h", 19092)),), zone="a"))
    await other.lease.start(9092)
    command = other.control.calls[0].register_agent
    assert (command.host, command.port, command.zone) == ("h", 19092, "a")
    await other.lease.stop_renewing()


@on_virtual_time
async def test_segment_ids_are_never_given_twice() -> None:
    setup = await started()
    given = [setup.lease.next_segment_id() for _ in range(3)]
    assert given == [SegmentId(7, 1), SegmentId(7, 2), SegmentId(7, 3)]
    setup.lease.report_expired(7)
    with pytest.raises(NoLeaseError):
        setup.lease.next_segment_id()
    await until(lambda: setup.lease.lease_id == 8, 0.001)
    assert setup.lease.next_segment_id() == SegmentId(8, 1)


@on_virtual_time
async def test_a_late_report_of_an_old_lease_changes_nothing() -> None:
    setup = await started()
    setup.lease.report_expired(6)
    assert setup.lease.lease_id == 7


@on_virtual_time
async def test_renews_again_and_again() -> None:
    setup = await started()
    await until(lambda: setup.verbs().count("renew_lease") >= 3, 0.001)
    assert all(
        call.renew_lease.lease_id == 7
        for call in setup.control.calls
        if call.HasField("renew_lease")
    )
    assert setup.metrics.lease_registrations == 1


@on_virtual_time
async def test_an_expired_lease_is_replaced() -> None:
    setup = await started()
    expired = LeaseRenewed(error_code=int(ErrorCode.LEASE_EXPIRED))
    setup.control.answers["renew_lease"] = Reply(lease_renewed=expired)
    await until(lambda: setup.lease.lease_id > 8, 0.001)
    assert setup.metrics.lease_registrations >= 2


@on_virtual_time
async def test_what_was_put_under_a_lease_that_is_lost_is_reported_until_it_is_known() -> None:
    """The current lease is renewed instead."""
    setup = await started()
    before = setup.verbs().count("renew_lease")
    await setup.lease.confirm(7)
    assert setup.verbs().count("renew_lease") == before + 1
    assert "release_lease" not in setup.verbs()
    setup.control.answers["release_lease"] = ControlPlaneUnavailable("x")
    confirming = asyncio.create_task(setup.lease.confirm(6))
    await until(lambda: setup.verbs().count("release_lease") == 2, 0.001)
    setup.control.answers["release_lease"] = Reply(lease_released=Outcome())
    await confirming
    setup.control.answers["release_lease"] = CommandRefused(42, "x")
    await setup.lease.confirm(6)
    assert setup.verbs().count("release_lease") == 4
    assert setup.lease.lease_id == 7


@pytest.mark.parametrize("error", [ControlPlaneUnavailable("x"), CommandRefused(42, "x")])
@on_virtual_time
async def test_while_the_control_plane_is_away_the_lease_is_kept(error: Exception) -> None:
    """It may still be valid; only the control plane can end it."""
    setup = await started()
    setup.control.answers["renew_lease"] = error
    await until(lambda: setup.metrics.lease_renewals_failed >= 2, 0.001)
    assert setup.lease.lease_id == 7
    setup.control.answers["renew_lease"] = Reply(lease_renewed=LeaseRenewed())
    renewals = setup.verbs().count("renew_lease")
    await until(lambda: setup.verbs().count("renew_lease") >= renewals + 3, 0.001)
    assert setup.metrics.lease_registrations == 1


@on_virtual_time
async def test_each_new_session_is_renewed_over_at_once() -> None:
    made = Setup(lease_duration_ms=3_600_000)
    await made.lease.start(9092)
    for number in (1, 2):
        made.control.cluster.apply(snapshot())
        await until(lambda count=number: made.verbs().count("renew_lease") == count, 0.001)  # type: ignore[misc]
    await made.lease.stop_renewing()
    made.control.cluster.apply(snapshot())
    await asyncio.sleep(0)
    assert made.verbs().count("renew_lease") == 2


@on_virtual_time
async def test_who_comes_back_without_its_lease_drops_what_clients_asked_before() -> None:
    """The agent was cut off for longer than its lease, so a late commit of offsets could overwrite later ones."""
    made = Setup(lease_duration_ms=3_600_000)
    dropped = []
    made.lease.on_lost = lambda: dropped.append(made.control.given_up)
    await made.lease.start(9092)
    without = snapshot()
    without.lease_ids.remove(7)
    made.control.cluster.apply(without)
    assert dropped == [1], "before the client sends anything in the new session"
    await until(lambda: made.lease.lease_id == 8, 0.001)
    await made.lease.stop_renewing()


@on_virtual_time
async def test_who_was_hidden_renews_and_drops_what_clients_asked_before() -> None:
    made = Setup(lease_duration_ms=3_600_000)
    dropped = []
    made.lease.on_lost = lambda: dropped.append(made.control.given_up)
    await made.lease.start(9092)
    hidden = ClusterDelta(version=2, has_agents=True, hidden_lease_ids=[6, 7])
    made.control.cluster.apply(hidden)
    made.control.cluster.apply(hidden)
    assert dropped == [1], "once each time"
    await until(lambda: made.verbs().count("renew_lease") == 1, 0.001)
    made.control.cluster.apply(ClusterDelta(version=3, has_agents=True, hidden_lease_ids=[6]))
    made.control.cluster.apply(hidden)
    assert dropped == [1, 2]
    assert made.lease.lease_id == 7, "the lease itself is held"
    await made.lease.stop_renewing()


@on_virtual_time
async def test_registering_again_is_tried_until_it_works() -> None:
    setup = await started()
    setup.control.answers["register_agent"] = ControlPlaneUnavailable("x")
    setup.lease.report_expired(7)
    await until(lambda: setup.verbs().count("register_agent") >= 3, 0.001)
    assert setup.lease.lease_id == NO_LEASE
    setup.control.answers["register_agent"] = setup.register
    await until(lambda: setup.lease.lease_id == 8, 0.001)


@on_virtual_time
async def test_who_leaves_says_so_in_each_renewal_and_does_not_come_back() -> None:
    setup = await started()
    await setup.lease.leave(60)
    setup.control.cluster.apply(snapshot())
    await until(lambda: setup.verbs().count("renew_lease") == 2, 0.001)
    renewals = [call.renew_lease for call in setup.control.calls if call.HasField("renew_lease")]
    assert [each.is_leaving for each in renewals] == [True, True]
    expired = LeaseRenewed(error_code=ErrorCode.LEASE_EXPIRED)
    setup.control.answers["renew_lease"] = Reply(lease_renewed=expired)
    await until(lambda: setup.lease.lease_id == NO_LEASE, 0.001)
    await asyncio.sleep(60)
    assert setup.verbs().count("register_agent") == 1
    await setup.lease.stop_renewing()
    await setup.lease.release(1.0)


@on_virtual_time
async def test_the_end_gives_the_lease_back() -> None:
    setup = await started()
    await setup.lease.stop_renewing()
    assert setup.lease.lease_id == 7
    await setup.lease.release(1.0)
    await setup.lease.release(1.0)
    assert setup.verbs().count("release_lease") == 1
    assert setup.lease.lease_id == NO_LEASE


@on_virtual_time
async def test_the_end_does_not_need_a_control_plane() -> None:
    setup = await started()
    setup.control.answers["release_lease"] = ControlPlaneUnavailable("x")
    await setup.lease.stop_renewing()
    await setup.lease.release(1.0)
    assert setup.lease.lease_id == NO_LEASE


@on_virtual_time
async def test_the_end_does_not_wait_for_a_control_plane_that_stays_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silence(_: Command) -> Reply:
        return await asyncio.Future[Reply]()

    setup = await started()
    await setup.lease.stop_renewing()
    monkeypatch.setattr(setup.control, "call", silence)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await setup.lease.release(4.0)
    assert loop.time() - began == pytest.approx(4.0, abs=0.01)
    assert setup.lease.lease_id == NO_LEASE


@on_virtual_time
async def test_the_first_registration_may_fail() -> None:
    made = Setup()
    made.control.answers["register_agent"] = Reply(agent_registered=AgentRegistered(error_code=42))
    with pytest.raises(CommandRefused):
        await made.lease.start(1)


@on_virtual_time
async def test_a_mistake_of_ours_does_not_end_the_keeping(caplog: pytest.LogCaptureFixture) -> None:
    setup = await started()

    def fail() -> None:
        setup.control.answers["renew_lease"] = Reply(lease_renewed=LeaseRenewed())
        raise ValueError("nobody thought of it")

    setup.lease.on_lost = fail
    expired = LeaseRenewed(error_code=ErrorCode.LEASE_EXPIRED)
    setup.control.answers["renew_lease"] = Reply(lease_renewed=expired)
    await until(lambda: setup.metrics.lease_registrations == 2, 0.001)
    assert setup.lease.lease_id == 8
    assert "unexpected error while keeping the lease" in caplog.text


def peer(number: int, name: str, version: str = "1") -> Peer:
    host, client_id = f"10.0.0.{number}", f"{number}".rjust(30_000, "x")
    found = replace(anybody(), host=host, port=number, client_id=client_id, software=Software())
    found.software.is_called(name, version)
    return found


def test_clients_are_counted_by_what_they_say() -> None:
    peers = [peer(number, "often" if number % 3 else "rare") for number in range(24)]
    often, rare = clients_of(peers)
    assert (often.name, often.version, often.connections) == ("often", "1", 16)
    assert (len(often.hosts), often.has_more_hosts) == (5, True)
    assert {len(each) for each in often.client_ids} == {100}
    assert rare.connections == 8


@pytest.mark.slow
def test_a_report_is_bounded_whatever_connects() -> None:
    kinds = [peer(number, "x" * 5000 + str(number), "y" * 5000) for number in range(300)]
    kinds += [peer(number, "many") for number in range(3000)]
    report = report_of(make_context(ScriptedControl()), kinds, None)
    assert report.ByteSize() < MAX_REPORT_BYTES
    assert len(report.clients) <= 20
    assert report.clients[0].connections + report.connections_left_out >= 3000
    told = sum(each.connections for each in report.clients)
    assert told + report.connections_left_out == 3300
