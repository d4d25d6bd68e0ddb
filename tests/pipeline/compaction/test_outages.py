"""Tests outages of the control plane, lost answers, and expired leases."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer

from lacuna.controlplane.client import ControlPlace, ControlPlaneUnavailable, SessionLimits
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Outcomes
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.pipeline.compaction.job import watch
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.holding import HOLD_SECONDS, JobHold
from lacuna.pipeline.location import find_cluster
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, read_partition
from tests.pipeline.conftest import transact

_IMPATIENT = SessionLimits(give_up_after=0.3, first_pause=0.01, longest_pause=0.05)


def _address(cluster: Cluster) -> ControlPlace:
    return find_cluster(data=str(cluster.data)).require_control()


def _produce(cluster: Cluster, topic: str, count: int = 3) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(60)


class _Forgetful(JobClient):
    """Loses the answers to the first swaps, which succeed."""

    lost = 2

    def call(self, command: Command) -> Reply:
        reply = super().call(command)
        if command.HasField("swap_extents") and self.lost:
            self.lost -= 1
            raise ControlPlaneUnavailable("the answer was lost")
        return reply


def test_a_swap_whose_answer_was_lost_is_sent_again_and_done_once(
    cluster: Cluster, compactor: Compactor
) -> None:
    topic = cluster.create_topic("lost-answers")
    _produce(cluster, topic)
    before = read_partition(cluster, topic)
    with _Forgetful(_address(cluster)) as control:
        report = compactor.job(control).run([topic])
        assert control.lost == 0
    assert not report.refused
    assert report.work.partitions == 1
    assert report.total.after.extents == 1
    assert read_partition(cluster, topic) == before


def test_a_lease_that_was_lost_is_told(cluster: Cluster, compactor: Compactor) -> None:
    """The renewal notices the loss, and no commit is attempted afterwards."""
    with compactor.control() as control, JobHold(control) as hold:
        hold.confirm()
        cluster.advance(int(HOLD_SECONDS * 1000) + 1000)
        with pytest.raises(PipelineError, match="has lost its lease"):
            hold.confirm()
        assert hold.lost.is_set()


@dataclass(slots=True)
class _Pauses:
    """Runs one action in each of the first pauses of a watch, and nothing in later ones."""

    works: list[Callable[[], object]]
    seconds: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.works:
            self.works.pop(0)()


def test_a_watch_goes_on_behind_an_outage(timed: Compactor) -> None:
    """The outage is logged in one line, and the watch then compacts the data that has accumulated."""
    cluster = timed.cluster
    topic = cluster.create_topic("watched")
    _produce(cluster, topic)
    outages: list[str] = []

    with _connected(_address(cluster)) as control:

        def come_back() -> None:
            cluster.start()
            _produce(cluster, topic, 5)
            _until_connected(control)

        pauses = _Pauses([lambda: _produce(cluster, topic), cluster.stop, come_back])
        reports = watch(timed.job(control), [topic], 600.0, outages.append, pauses)
        found = [next(reports) for _ in range(3)]
    assert [report.total.before.extents for report in found] == [3, 4, 6]
    assert [report.total.after.extents for report in found] == [1, 1, 1]
    assert set(pauses.seconds) == {600.0}
    assert len(outages) == len(pauses.seconds) - 2  # until the client had found it again
    assert outages


class _TooLate(JobClient):
    """While `is_late`, the lease of every swap has already expired."""

    is_late = False

    def call(self, command: Command) -> Reply:
        if command.HasField("swap_extents") and self.is_late:
            expired = Outcomes(error_code=ErrorCode.LEASE_EXPIRED)
            return Reply(extents_swapped=expired)
        return super().call(command)


def test_a_watch_goes_on_behind_an_outage_longer_than_its_lease(timed: Compactor) -> None:
    """The output of that run is garbage, and the next run opens a new lease."""
    cluster = timed.cluster
    topic = cluster.create_topic("watched-for-long")
    _produce(cluster, topic)
    told: list[str] = []
    with _TooLate(_address(cluster)) as control:

        def fall_behind() -> None:
            _produce(cluster, topic)
            control.is_late = True

        def catch_up() -> None:
            control.is_late = False

        pauses = _Pauses([fall_behind, catch_up])
        reports = watch(timed.job(control), [topic], 600.0, told.append, pauses)
        found = [next(reports) for _ in range(2)]
    assert [report.total.before.extents for report in found] == [3, 4]
    assert [report.total.after.extents for report in found] == [1, 1]
    (line,) = told
    assert "has lost its lease" in line


def _connected(address: ControlPlace) -> JobClient:
    """Return a client that gives up soon, once it has its first session."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return JobClient(address, _IMPATIENT)
        except ControlPlaneUnavailable:
            assert time.monotonic() < deadline


def _until_connected(control: JobClient) -> None:
    """Wait until the client's session is back. Without one, every call fails immediately."""
    deadline = time.monotonic() + 60
    while True:
        try:
            control.topics()
        except ControlPlaneUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return


def test_a_threshold_leaves_alone_what_is_hardly_worth_it(
    cluster: Cluster, compactor: Compactor
) -> None:
    topics = [cluster.create_topic(name) for name in ("wasteful", "thrifty")]
    for topic, aborted in zip(topics, (9, 1), strict=True):
        commits = [(True, [(b"k", bytes(20_000))])] * (10 - aborted)
        transact(cluster, topic, [*commits, *[(False, [(b"k", bytes(20_000))])] * aborted])
    report = compactor.run(*topics, threshold=0.5, small_bytes=1)
    changed = [each.topic for each in report.topics if each.before != each.after]
    assert changed == ["wasteful"]
    report = compactor.run(*topics, threshold=0.05, small_bytes=1)
    assert report.work.partitions == 1
