"""Tests the commit protocol step by step, without Spark: lost replies, zombies, deleted topics, restarts."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Message

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS
from lacuna.controlplane.state.state import REMEMBERED_COMMITS
from lacuna.controlplane.v1.cluster_pb2 import ReleaseLease, RenewLease
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.logstore.segments import lease_prefix, segments_prefix
from lacuna.pipeline.datasource.writing.control import RetryingJobClient
from lacuna.pipeline.datasource.writing.lease import LEASE_SECONDS
from lacuna.pipeline.datasource.writing.transaction import (
    WriteTransaction,
    commit_write,
    is_written,
)
from lacuna.pipeline.datasource.writing.writers import abort, release
from lacuna.pipeline.errors import OutcomeUnknownError, PipelineError, WriterFencedError
from lacuna.testing import Cluster
from tests.agent.housekeeping.test_housekeeping import PARTS, housekeeping
from tests.pipeline.conftest import consumed, delete_topic

from .conftest import commit, open_control, options, progress, write


def values(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


@pytest.mark.slow
def test_many_segments_of_many_tasks_keep_their_order(cluster: Cluster) -> None:
    topic = cluster.create_topic("segments")
    wanted = [b"%06d" % n * 10 for n in range(2000)]
    tasks = [write(cluster, topic, wanted[:1600]), write(cluster, topic, wanted[1600:])]
    assert len(tasks[0].segments) > REMEMBERED_COMMITS
    assert consumed(cluster, topic) == []
    assert commit(cluster, tasks)
    assert values(consumed(cluster, topic)) == wanted


def test_a_repeated_batch_is_known(cluster: Cluster) -> None:
    topic = cluster.create_topic("repeated")
    assert commit(cluster, [write(cluster, topic, [b"one"])], progress(7))
    assert not commit(cluster, [write(cluster, topic, [b"one"])], progress(7))
    assert not commit(cluster, [write(cluster, topic, [b"zero"])], progress(6))
    assert commit(cluster, [write(cluster, topic, [b"two"])], progress(8))
    assert commit(cluster, [write(cluster, topic, [b"three"])], progress(0, "another query"))
    assert values(consumed(cluster, topic)) == [b"one", b"two", b"three"]


def test_a_zombie_is_fenced(cluster: Cluster) -> None:
    """A driver is paused in mid-commit while its successor commits the same batch."""
    topic = cluster.create_topic("zombie")
    late = write(cluster, topic, [b"late"])
    with open_control(cluster) as control:
        zombie = WriteTransaction(control, "zombie")
        zombie.begin(1)
        zombie.commit_segments([late])
        assert commit(cluster, [write(cluster, topic, [b"right"])], progress(0), "zombie")
        with pytest.raises(
            WriterFencedError, match="another run with the transactional id 'zombie'"
        ):
            zombie.record(progress(0), [late])
        with pytest.raises(WriterFencedError):
            zombie.end()
        zombie.abort()
        with pytest.raises(WriterFencedError):
            zombie.commit_segments([write(cluster, topic, [b"later"])])
    assert values(consumed(cluster, topic)) == [b"right"]


def test_a_zombie_before_its_commit_disturbs_nobody(cluster: Cluster) -> None:
    """It learns that its batch is complete before it fences the active driver."""
    topic = cluster.create_topic("sleeper")
    late = write(cluster, topic, [b"late"])
    assert commit(cluster, [write(cluster, topic, [b"right"])], progress(0, "sleeper"), "sleeper")
    with open_control(cluster) as control:
        living = WriteTransaction(control, "sleeper")
        living.begin(1)
        assert not commit(cluster, [late], progress(0, "sleeper"), "sleeper")
        living.commit_segments([write(cluster, topic, [b"next"])])
        living.end()
    assert values(consumed(cluster, topic)) == [b"right", b"next"]


class LosesReplies(RetryingJobClient):
    """Executes every command, but loses the first reply to each."""

    lost = 0

    async def _call_all(self, commands: Sequence[Command]) -> list[Reply]:
        replies = await super()._call_all(commands)
        type(self).lost += 1
        if type(self).lost % 2:
            raise ControlPlaneUnavailable("lost")
        return replies


def test_lost_replies_are_asked_for_again(cluster: Cluster) -> None:
    topic = cluster.create_topic("lost-replies")
    wanted = [b"%06d" % n * 10 for n in range(300)]
    tasks = [write(cluster, topic, wanted)]
    LosesReplies.lost = 0
    with open_control(cluster, LosesReplies) as control:
        assert commit_write(control, "loser", tasks, progress(0, "loser"))
        assert is_written(control, progress(0, "loser"))
    assert LosesReplies.lost >= 12
    assert values(consumed(cluster, topic)) == wanted


class IsGoneAtTheEnd(RetryingJobClient):
    """Loses every reply to EndTxn."""

    def ask(self, command: Command) -> Reply:
        if command.HasField("end_txn"):
            super().ask(command)
            raise ControlPlaneUnavailable("gone")
        return super().ask(command)


def test_an_unknown_outcome_is_found_out(cluster: Cluster) -> None:
    topic = cluster.create_topic("unknown-outcome")
    task = write(cluster, topic, [b"once"])
    with (
        open_control(cluster, IsGoneAtTheEnd) as control,
        pytest.raises(OutcomeUnknownError, match="it is not known whether the write was committed"),
    ):
        commit_write(control, "unknown", [task], progress(0, "unknown"))
    assert not commit(cluster, [write(cluster, topic, [b"again"])], progress(0, "unknown"))
    assert values(consumed(cluster, topic)) == [b"once"]


@pytest.mark.slow
def test_a_deleted_topic_fails_the_write_whole(cluster: Cluster) -> None:
    kept, gone = cluster.create_topic("kept"), cluster.create_topic("gone")
    tasks = [write(cluster, topic, [b"x"]) for topic in (kept, gone)]
    delete_topic(cluster, gone)
    with pytest.raises(PipelineError, match="topic 'gone' was deleted during the write"):
        commit(cluster, tasks, progress(0, "deleted"))
    assert consumed(cluster, kept) == []
    assert commit(cluster, [write(cluster, kept, [b"y"])], progress(0, "deleted"))
    assert values(consumed(cluster, kept)) == [b"y"]


def test_progress_outlives_one_of_the_topics(cluster: Cluster) -> None:
    names = [cluster.create_topic(f"progress-{n}") for n in range(2)]
    assert commit(cluster, [write(cluster, topic, [b"x"]) for topic in names], progress(4, "both"))
    delete_topic(cluster, names[0])
    with open_control(cluster) as control:
        assert is_written(control, progress(4, "both"))
        assert not is_written(control, progress(5, "both"))


def test_an_expired_lease_fails_the_write_whole(cluster: Cluster) -> None:
    topic = cluster.create_topic("expired")
    tasks = [write(cluster, topic, [b"x"]) for _ in range(2)]
    with open_control(cluster) as control:
        control.call(Command(release_lease=ReleaseLease(lease_id=tasks[1].lease_id)))
    with pytest.raises(PipelineError, match="lease has expired"):
        commit(cluster, tasks)
    assert consumed(cluster, topic) == []


def test_a_failed_attempt_gives_its_lease_back(cluster: Cluster) -> None:
    topic = cluster.create_topic("bad-attempt", 1, {"max.message.bytes": "500"})
    lease_id = write(cluster, topic, [b"x"]).lease_id
    with pytest.raises(PipelineError, match=r"max\.message\.bytes"):
        write(cluster, topic, [b"x" * 100, os.urandom(1000)])
    with open_control(cluster) as control:
        found = [
            control.call(Command(renew_lease=RenewLease(lease_id=each))).lease_renewed.error_code
            for each in (lease_id, lease_id + 1)
        ]
    assert found == [ErrorCode.NONE, ErrorCode.LEASE_EXPIRED]


def test_a_write_of_nothing_asks_for_nothing(cluster: Cluster) -> None:
    topic = cluster.create_topic("nothing")
    task = write(cluster, topic, [])
    assert (task.lease_id, task.segments) == (0, ())
    assert commit(cluster, [task, task], progress(3, "nothing"))
    with open_control(cluster) as control:
        assert not is_written(control, progress(3, "nothing"))


@pytest.fixture
def private() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.mark.slow
def test_a_commit_goes_on_when_the_control_plane_is_back(private: Cluster) -> None:
    """It is killed and restarted several times during commits."""
    topic = private.create_topic("restarts")
    wanted = [b"%06d" % n * 10 for n in range(3000)]
    tasks = [write(private, topic, wanted[first : first + 500]) for first in range(0, 3000, 500)]
    with ThreadPoolExecutor(1) as executor:
        committing = executor.submit(commit, private, tasks, progress(0))
        for _ in range(3):
            private.kill()
            private.start()
        assert committing.result(60)
    assert values(consumed(private, topic)) == wanted


@pytest.fixture
def collected() -> Iterator[Cluster]:
    """A cluster that collects only when a test requests it, with a clock that the test sets."""
    with Cluster(parts=PARTS) as running:
        yield running


@pytest.mark.slow
def test_what_was_not_committed_is_swept(collected: Cluster) -> None:
    topic = collected.create_topic("swept")
    wanted = [b"%06d" % n * 10 for n in range(100)]
    won, lost, failed, left = (write(collected, topic, wanted) for _ in range(4))
    assert commit(collected, [won])
    with open_control(collected) as control:
        release(control, [won])
        dying = WriteTransaction(control, "dying")  # its driver ends here
        dying.begin(1)
        dying.commit_segments([left])
    abort(options(collected), [failed])
    assert sweep(collected, 0) == len(failed.segments)
    assert objects_of(collected, lost.lease_id) == len(lost.segments)
    assert sweep(collected, LEASE_SECONDS * 1000) == len(lost.segments)
    assert objects_of(collected, won.lease_id) == len(won.segments)
    assert [message.value() for message in consumed(collected, topic)] == wanted


def test_a_task_that_fails_holds_no_lease(
    collected: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a failure to look up the topics. The lease would otherwise remain for a day."""
    topic = collected.create_topic("leased")
    leases = collected.embedded.running.runtime._state.leases
    before = set(leases)

    def away(_: RetryingJobClient) -> None:
        raise ControlPlaneUnavailable("away")

    monkeypatch.setattr(RetryingJobClient, "topics", away)
    with pytest.raises(ControlPlaneUnavailable, match="away"):
        write(collected, topic, [b"value"])
    assert set(leases) == before


def sweep(cluster: Cluster, milliseconds: int) -> int:
    """Advance the time and collect. Return the number of removed objects."""
    before = objects_of(cluster)
    cluster.advance(milliseconds)
    cluster.advance(COLLECTION_GRACE_MS)
    cluster.run(housekeeping(cluster).collector.run_once())
    return before - objects_of(cluster)


def objects_of(cluster: Cluster, lease_id: int | None = None) -> int:
    """Return the number of segments in the store, written under one lease or any."""
    cluster_id = cluster.embedded.running.runtime.cluster_id
    prefix = segments_prefix(cluster_id)
    if lease_id is not None:
        prefix = lease_prefix(cluster_id, lease_id)
    return sum(1 for _ in cluster.embedded.store.list(prefix))
