"""Tests the registration of agents, and live agents that lose their connection to the control plane."""

from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import commit_of, verdicts_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import (
    LEASE_DURATION_MS,
    MISSED_MS,
    MOST_MISSED,
    RECONNECT_GRACE_MS,
    SESSION_GRACE_MS,
)
from lacuna.controlplane.v1.cluster_pb2 import (
    ClusterDelta,
    OpenLease,
    RegisterAgent,
    ReleaseLease,
    RenewLease,
)
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import SegmentId
from tests.controlplane.verbs.cluster import Cluster, add_batch
from tests.controlplane.verbs.script import run


def _agents(cluster: Cluster) -> list[tuple[list[int], int]]:
    """Return the nodes and the number of processes in each delta since the last call."""
    changes = cluster.state.take_changes()
    assert all(isinstance(change, ClusterDelta) for change in changes)
    return [
        ([agent.node_id for agent in change.agents], change.agent_processes)
        for change in changes
        if isinstance(change, ClusterDelta) and change.has_agents
    ]


def _renew(cluster: Cluster, lease_id: int) -> int:
    code: int = cluster.do("renew_lease", RenewLease(lease_id=lease_id)).error_code
    return code


def test_one_address_has_one_node_id_for_ever_and_each_registration_a_lease() -> None:
    cluster = Cluster(agents=0)
    answers = [
        cluster.do("register_agent", RegisterAgent(host=host, port=port, zone="z"))
        for host, port in [("a", 1), ("a", 1), ("b", 1), ("a", 2)]
    ]
    assert [answer.node_id for answer in answers] == [1, 1, 2, 3]
    assert [answer.lease_id for answer in answers] == [1, 2, 3, 4]
    assert {answer.lease_duration_ms for answer in answers} == {LEASE_DURATION_MS}
    assert {answer.cluster_id for answer in answers} == {"cluster"}
    assert _agents(cluster) == [([1], 1), ([1], 2), ([1, 2], 3), ([1, 2, 3], 4)]
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    assert _agents(cluster) == [([1, 2, 3], 3)]  # the other worker still lives
    cluster.do("release_lease", ReleaseLease(lease_id=2))
    assert _agents(cluster) == [([2, 3], 2)]
    assert cluster.do("release_lease", ReleaseLease(lease_id=2)).error_code == (
        ErrorCode.LEASE_EXPIRED
    )
    again = cluster.do("register_agent", RegisterAgent(host="a", port=1, zone="other"))
    assert (again.node_id, again.lease_id) == (1, 5)
    snapshot = cluster.state.cluster_snapshot()
    assert [(agent.node_id, agent.zone) for agent in snapshot.agents] == [
        (1, "other"),
        (2, "z"),
        (3, "z"),
    ]
    assert snapshot.is_snapshot
    assert snapshot.cluster_id == "cluster"
    cluster.check()


def test_a_lease_that_is_not_renewed_ends_and_never_comes_back() -> None:
    cluster = Cluster(agents=2)
    assert cluster.tick() == []
    assert cluster.tick(LEASE_DURATION_MS - 1) == []
    assert _renew(cluster, 2) == ErrorCode.NONE
    assert cluster.tick(1) == ["leases_ended"]
    assert _renew(cluster, 1) == ErrorCode.LEASE_EXPIRED
    assert cluster.do("release_lease", ReleaseLease(lease_id=1)).error_code == (
        ErrorCode.LEASE_EXPIRED
    )
    assert cluster.tick(LEASE_DURATION_MS - 1) == ["leases_ended"]
    assert cluster.state.leases == {}
    cluster.check()


def test_after_a_restart_every_lease_has_its_full_duration() -> None:
    cluster = Cluster()
    cluster.tick()
    cluster.tick(LEASE_DURATION_MS - 1)
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert cluster.tick(LEASE_DURATION_MS) == []
    assert cluster.tick(LEASE_DURATION_MS - 1) == []
    assert cluster.tick(1) == ["leases_ended"]


def test_a_commit_under_an_ended_lease_changes_nothing() -> None:
    cluster = run("topic a 1")
    assert cluster.put("a-0") == 0
    cluster.do("release_lease", ReleaseLease(lease_id=1))
    before = machine.snapshot(cluster.state)
    assert cluster.put("a-0") == "LEASE_EXPIRED"
    assert machine.snapshot(cluster.state) == before


def test_a_commit_again_gets_the_same_verdicts_and_an_old_one_an_error() -> None:
    cluster = run("topic a 1")
    given = cluster.slice("a-0")
    add_batch(given, count=3)
    unknown = cluster.slice("nowhere-0")
    command = commit_of(SegmentId(lease_id=1, sequence=1), 1000, [given, unknown])
    first = cluster.do("commit_segment", command)
    assert verdicts_of(first)[1].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    cluster.sequence = 1
    for _ in range(63):
        cluster.put("a-0")
    assert cluster.do("commit_segment", command) == first
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert cluster.do("commit_segment", command) == first
    cluster.put("a-0")
    before = machine.snapshot(cluster.state)
    assert cluster.do("commit_segment", command).error_code == ErrorCode.INVALID_REQUEST
    assert machine.snapshot(cluster.state) == before
    cluster.check()


def test_an_agent_without_an_address_is_refused() -> None:
    cluster = Cluster()
    for host, port in [("", 9092), ("h", 0), ("h", 65536)]:
        failure = cluster.do("register_agent", RegisterAgent(host=host, port=port))
        assert failure.error_code == ErrorCode.INVALID_REQUEST
        assert "host and port" in failure.message


class Sessions:
    """A cluster whose agents connect over numbered sessions. Agent n has port n, lease n and node n."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster(agents=0)

    def register(self, session: int, port: int) -> int:
        """Register an agent. Return its lease."""
        reply = self._handle(session, register_agent=RegisterAgent(host="a", port=port))
        lease_id: int = reply.agent_registered.lease_id
        return lease_id

    def renew(self, session: int, lease_id: int) -> int:
        reply = self._handle(session, renew_lease=RenewLease(lease_id=lease_id))
        code: int = reply.lease_renewed.error_code
        return code

    def leave(self, session: int, lease_id: int) -> None:
        """Announce that the agent is about to stop."""
        lease = RenewLease(lease_id=lease_id, is_leaving=True)
        assert self._handle(session, renew_lease=lease).lease_renewed.error_code == ErrorCode.NONE

    def _handle(self, session: int, **verb: object) -> Reply:
        cluster = self.cluster
        before = machine.snapshot(cluster.state)
        context = cluster.context()._replace(session=session)
        decision = machine.handle(cluster.state, Command(**verb), context)  # type: ignore[arg-type]
        assert machine.snapshot(cluster.state) == before, "deciding changes nothing durable"
        cluster.decide(decision)
        assert decision.reply is not None
        return decision.reply

    def end(self, session: int) -> None:
        machine.end_session(self.cluster.state, session, self.cluster.now_ms)

    def pass_ms(self, after_ms: int) -> None:
        """Let time pass, without any record."""
        before = machine.snapshot(self.cluster.state)
        assert self.cluster.tick(after_ms) == []
        assert machine.snapshot(self.cluster.state) == before, "what is hidden is in no snapshot"

    def shown(self) -> list[int]:
        """Return the nodes that a new session receives."""
        return [agent.node_id for agent in self.cluster.state.cluster_snapshot().agents]

    def hidden(self) -> list[int]:
        """Return the hidden nodes that a new session also receives."""
        snapshot = self.cluster.state.cluster_snapshot()
        return [agent.node_id for agent in snapshot.hidden_agents]

    def leaving(self) -> list[int]:
        """Return the hidden nodes that still answer the requests that they have read."""
        return list(self.cluster.state.cluster_snapshot().leaving_node_ids)

    def told(self) -> list[tuple[list[int], list[int]]]:
        """Return the nodes and the hidden leases in each delta since the last call."""
        changes = self.cluster.state.take_changes()
        return [
            ([agent.node_id for agent in change.agents], list(change.hidden_lease_ids))
            for change in changes
            if isinstance(change, ClusterDelta) and change.has_agents
        ]


def two_agents() -> Sessions:
    sessions = Sessions()
    assert [sessions.register(10 + port, port) for port in (1, 2)] == [1, 2]
    assert sessions.told() == [([1], []), ([1, 2], [])]
    return sessions


def test_an_agent_whose_session_broke_is_hidden_and_keeps_its_lease() -> None:
    """S2, S12: its requests in flight can still commit."""
    sessions = two_agents()
    sessions.cluster.create("t")
    sessions.told()
    sessions.end(11)
    sessions.pass_ms(SESSION_GRACE_MS - 1)
    assert (sessions.shown(), sessions.told()) == ([1, 2], [])
    sessions.pass_ms(1)
    assert (sessions.shown(), sessions.told()) == ([2], [([2], [1])])
    assert sessions.hidden() == [1]
    sessions.cluster.lease_id = 1
    assert sessions.cluster.put("t-0") == 0
    assert sessions.renew(20, 1) == ErrorCode.NONE
    assert (sessions.shown(), sessions.told()) == ([1, 2], [([1, 2], [])])
    sessions.pass_ms(SESSION_GRACE_MS)
    assert (sessions.shown(), sessions.hidden()) == ([1, 2], [])
    sessions.cluster.check()


def test_an_agent_that_leaves_is_hidden_at_once_and_keeps_its_lease() -> None:
    """S2, S12: requests that clients sent before they moved to other agents can still commit."""
    sessions = two_agents()
    sessions.cluster.create("t")
    sessions.told()
    sessions.leave(11, 1)
    assert (sessions.shown(), sessions.hidden(), sessions.told()) == ([2], [1], [([2], [1])])
    assert sessions.leaving() == [1]
    sessions.leave(11, 1)
    assert sessions.told() == []
    sessions.pass_ms(LEASE_DURATION_MS - 1)
    sessions.leave(11, 1)
    sessions.renew(12, 2)
    sessions.pass_ms(LEASE_DURATION_MS - 1)
    sessions.cluster.lease_id = 1
    assert sessions.cluster.put("t-0") == 0
    assert sessions.shown() == [2]


def test_an_agent_that_leaves_and_is_gone_is_not_leaving_any_more() -> None:
    sessions = two_agents()
    sessions.leave(11, 1)
    sessions.end(11)
    sessions.told()
    sessions.pass_ms(SESSION_GRACE_MS)
    assert (sessions.hidden(), sessions.leaving()) == ([1], [])
    assert sessions.told() == [([2], [1])]
    sessions.leave(20, 1)
    assert (sessions.hidden(), sessions.leaving()) == ([1], [1])
    assert sessions.told() == [([2], [1])]
    sessions.cluster.do("release_lease", ReleaseLease(lease_id=1))
    assert (sessions.hidden(), sessions.leaving()) == ([1], [])


def test_a_session_that_comes_back_in_time_is_not_missed() -> None:
    sessions = two_agents()
    sessions.end(11)
    sessions.pass_ms(SESSION_GRACE_MS - 1)
    sessions.renew(20, 1)
    sessions.pass_ms(SESSION_GRACE_MS)
    assert (sessions.shown(), sessions.told()) == ([1, 2], [])


def test_the_old_session_may_be_missed_after_the_new_one_came() -> None:
    """The control plane may notice a broken connection long after the agent has opened another one."""
    sessions = two_agents()
    sessions.renew(20, 1)
    sessions.end(11)
    sessions.pass_ms(SESSION_GRACE_MS)
    assert sessions.shown() == [1, 2]
    sessions.end(20)
    sessions.pass_ms(SESSION_GRACE_MS)
    assert sessions.shown() == [2]


def test_a_node_is_shown_while_one_of_its_workers_is_there() -> None:
    sessions = two_agents()
    assert sessions.register(13, 1) == 3
    sessions.end(11)
    sessions.pass_ms(SESSION_GRACE_MS)
    assert sessions.shown() == [1, 2]
    sessions.told()
    sessions.cluster.do("release_lease", ReleaseLease(lease_id=3))
    assert (sessions.shown(), sessions.told()) == ([2], [([2], [1])])
    assert sessions.register(14, 1) == 4
    assert (sessions.shown(), sessions.told()) == ([1, 2], [([1, 2], [1])])
    sessions.cluster.check()


def test_the_lease_of_a_hidden_agent_ends_as_every_other() -> None:
    sessions = two_agents()
    sessions.cluster.tick()
    sessions.end(11)
    sessions.cluster.tick(LEASE_DURATION_MS - 1)
    sessions.renew(12, 2)
    assert sessions.cluster.tick(1) == ["leases_ended"]
    assert sessions.renew(11, 1) == ErrorCode.LEASE_EXPIRED
    assert sessions.told() == [([2], [1]), ([2], [])]
    sessions.cluster.check()


def test_an_agent_that_has_gone_is_a_broker_for_as_long_as_librdkafka_remembers_it() -> None:
    """librdkafka waits indefinitely for a group's coordinator if it briefly disappears from the list of brokers."""
    sessions = two_agents()
    sessions.cluster.tick()
    sessions.cluster.tick(LEASE_DURATION_MS - 1)
    sessions.renew(12, 2)
    assert sessions.cluster.tick(1) == ["leases_ended"]
    assert (sessions.shown(), sessions.hidden()) == ([2], [1])
    sessions.cluster.do("release_lease", ReleaseLease(lease_id=2))
    assert (sessions.shown(), sessions.hidden()) == ([], [1, 2])
    sessions.pass_ms(MISSED_MS - 1)
    sessions.register(13, 2)
    assert (sessions.shown(), sessions.hidden()) == ([2], [1])
    sessions.told()
    sessions.pass_ms(1)
    assert (sessions.hidden(), sessions.told()) == ([], [([2], [])])
    sessions.cluster.check()


def test_of_many_agents_that_have_gone_the_last_are_brokers() -> None:
    """A cluster that is scaled down does not list all of them. An agent that returns keeps its node id."""
    sessions = Sessions()
    ports = range(1, MOST_MISSED + 5)
    for port in ports:
        sessions.register(100 + port, port)
    for port in ports:
        sessions.cluster.do("release_lease", ReleaseLease(lease_id=port))
    sessions.told()
    sessions.pass_ms(1)
    assert sessions.hidden() == list(ports)[-MOST_MISSED:]
    assert sessions.told() == [([], [])], "the agents' views hear of it"
    sessions.register(200, ports[-1])
    assert (sessions.shown(), sessions.hidden()) == ([ports[-1]], list(ports)[-MOST_MISSED:-1])
    sessions.cluster.check()


def test_after_a_restart_nobody_is_hidden_before_he_could_connect_again() -> None:
    sessions = two_agents()
    sessions.end(11)
    sessions.pass_ms(SESSION_GRACE_MS)
    cluster = sessions.cluster
    cluster.state = machine.restore((machine.snapshot(cluster.state),))
    assert sessions.shown() == [1, 2]
    sessions.pass_ms(0)
    sessions.pass_ms(RECONNECT_GRACE_MS - 1)
    sessions.renew(1, 2)
    assert sessions.shown() == [1, 2]
    sessions.pass_ms(1)
    assert (sessions.shown(), sessions.told()) == ([2], [([2], [1])])


def test_a_job_has_no_session_to_lose() -> None:
    sessions = two_agents()
    sessions.cluster.do("open_lease", OpenLease(duration_ms=60_000))
    sessions.renew(30, 3)
    sessions.end(30)
    sessions.pass_ms(RECONNECT_GRACE_MS)
    assert sessions.told() == []
