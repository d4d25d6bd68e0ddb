"""Tests that collection removes uncommitted output of attempts, and nothing else."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Message

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS
from lacuna.logstore.segments import lease_prefix, segments_prefix
from lacuna.operating.agents import AgentParts
from lacuna.pipeline.datasource.writing.control import RetryingControlPlane
from lacuna.pipeline.datasource.writing.lease import LEASE_SECONDS
from lacuna.pipeline.datasource.writing.transaction import WriteTransaction
from lacuna.pipeline.datasource.writing.writers import abort, release
from lacuna.testing import Cluster
from tests.agent.housekeeping.test_housekeeping import PARTS, housekeeping

from .tasks import commit, open_control, options, write


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that collects only at a test's request, with a clock that the test sets."""
    parts: AgentParts = PARTS
    with Cluster(parts=parts) as running:
        yield running


def test_what_was_not_committed_is_swept(
    cluster: Cluster, consume: Callable[..., list[Message]]
) -> None:
    topic = cluster.create_topic("swept")
    wanted = [b"%06d" % n * 10 for n in range(100)]
    won, lost, failed, left = (write(cluster, topic, wanted) for _ in range(4))
    assert commit(cluster, [won])
    with open_control(cluster) as control:
        release(control, [won])
        dying = WriteTransaction(control, "dying")  # its driver ends here
        dying.begin(1)
        dying.commit_segments([left])
    abort(options(cluster), [failed])
    assert sweep(cluster, 0) == len(failed.segments)
    assert objects_of(cluster, lost.lease_id) == len(lost.segments)
    assert sweep(cluster, LEASE_SECONDS * 1000) == len(lost.segments)
    assert objects_of(cluster, won.lease_id) == len(won.segments)
    assert [message.value() for message in consume(cluster, topic)] == wanted


def test_a_task_that_fails_holds_no_lease(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a failure to look up the topics. A lease would remain for a day."""
    topic = cluster.create_topic("leased")
    leases = cluster.embedded.running.plane._state.leases
    before = set(leases)

    def away(_: RetryingControlPlane) -> None:
        raise ControlPlaneUnavailable("away")

    monkeypatch.setattr(RetryingControlPlane, "topics", away)
    with pytest.raises(ControlPlaneUnavailable, match="away"):
        write(cluster, topic, [b"value"])
    assert set(leases) == before


def sweep(cluster: Cluster, milliseconds: int) -> int:
    """Advance the time and collect. Return the number of removed objects."""
    before = objects_of(cluster)
    cluster.advance(milliseconds)
    cluster.advance(COLLECTION_GRACE_MS)
    cluster.run(housekeeping(cluster).collector.run_once())
    return before - objects_of(cluster)


def objects_of(cluster: Cluster, lease_id: int | None = None) -> int:
    """Return the segments in the store, of one lease or of all."""
    cluster_id = cluster.embedded.running.plane.cluster_id
    prefix = segments_prefix(cluster_id)
    if lease_id is not None:
        prefix = lease_prefix(cluster_id, lease_id)
    return sum(1 for _ in cluster.embedded.store.list(prefix))
