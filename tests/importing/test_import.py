"""Tests imports from a running cluster, which is another Lacuna here and Apache Kafka in `test_cutover`."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lacuna.agent.security.settings import SecuritySettings
from lacuna.base.data_folder import ADDRESS_NAME, left
from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlClient, ControlPlace
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
    DescribeCluster,
    ImportReport,
    OpenLease,
    RenewLease,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.importing.cluster import (
    LATEST,
    READ_COMMITTED,
    Broker,
    ClusterFailed,
    ClusterRefused,
    Kafka,
    failure_of,
)
from lacuna.importing.cutover import (
    Cutover,
    Standing,
    cut_over,
    reverse_offsets,
    standings,
)
from lacuna.importing.following import Budget, OutranError
from lacuna.importing.mirror import Importer, ImportSettings, Progress
from lacuna.importing.target import Stretch, Target
from lacuna.importing.topics import Selection, links_of
from lacuna.importing.transactions import SourceTransaction, source_transactions
from lacuna.importing.verifying import compare_mirrors
from lacuna.operating.agents import AgentParts
from lacuna.operating.control import connect
from lacuna.operating.kafka import Agents
from lacuna.operating.stores import open_checked
from lacuna.testing import Cluster
from lacuna.wire.messages.offsets import OFFSET_COMMIT_REQUEST
from tests.importing.sources import SECONDS, created, read

PARTITIONS: Final = 16
LEVELS: Final = ("read_committed", "read_uncommitted")


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class Run:
    """What an import printed, and how far it got."""

    progress: Progress
    lines: Sequence[str]


def importer_of(
    control: ControlClient,
    source: str,
    target: Cluster,
    say: Callable[[str], None],
    settings: ImportSettings,
) -> Importer:
    here, store = Agents(target.bootstrap), open_checked(target.store_url)
    return Importer(Agents(source), here, control, store, settings, say)


def control_of(target: Cluster) -> AbstractAsyncContextManager[ControlClient]:
    return connect(ControlPlace(left(target.data, ADDRESS_NAME)))


def imported(source: str, target: Cluster, *topics: str, **settings: Any) -> Run:
    """Import topics once."""
    lines: list[str] = []
    given = ImportSettings(selection=Selection(topics), is_once=True, **settings)

    async def run() -> Progress:
        async with control_of(target) as control:
            importer = importer_of(control, source, target, lines.append, given)
            await importer.run()
        return importer.progress

    return Run(asyncio.run(run()), lines)


def differences(source: str, target: str, *topics: str) -> list[str]:
    """Compare topics as `lacuna import verify` does."""

    async def compare() -> list[str]:
        async with (
            Kafka(Agents(source), "the source") as there,
            Kafka(Agents(target), "here") as here,
        ):
            compared = compare_mirrors(there, here, Selection(topics))
            return [each.difference async for each in compared if each.difference]

    return asyncio.run(compare())


def send(bootstrap: str, topic: str, values: Sequence[str], **config: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for value in values:
        producer.produce(topic, value.encode(), headers=[("h", None)], partition=0)
    assert producer.flush(SECONDS) == 0


def refused(bootstrap: str, topic: str) -> KafkaError:
    """Return the error for a record that must be rejected."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(SECONDS)
    (error,) = errors
    assert error is not None
    return error


def commit(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    ((found),) = consumer.committed([TopicPartition(topic, 0)], SECONDS)
    consumer.close()
    return int(found.offset)


@pytest.mark.slow
def test_records_groups_and_configs_arrive_and_producers_after_promotion(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "orders", 2, retention_ms="-1", flush_messages="9")
    send(there, "orders", ["a", "b", "c"], **{"compression.type": "lz4"})
    commit(there, "billing", TopicPartition("orders", 0, 2))
    first = imported(there, target, "orders")
    assert first.lines == ["orders: copied, but has no effect here: flush.messages"]
    send(there, "orders", ["d"], **{"enable.idempotence": True})
    second = imported(there, target, "orders")
    assert 0 < second.progress.counts.bytes_copied < first.progress.counts.bytes_copied
    for level in LEVELS:
        assert read(here, "orders", 0, level) == read(there, "orders", 0, level)
    assert committed(here, "billing", "orders") == 2
    assert differences(there, here, "orders") == []
    assert refused(here, "orders").code() == KafkaError.POLICY_VIOLATION
    lines = asyncio.run(cut_over(Agents(there), Agents(here), Cutover(names=["orders"])))
    assert lines == ["promoted orders: producers and consumers can use it now"]
    send(here, "orders", ["here"])
    send(there, "orders", ["there"])
    end, rows = read(here, "orders", 0, "read_committed")
    assert (end, [row[3] for row in rows]) == (5, [b"a", b"b", b"c", b"d", b"here"])
    (difference,) = differences(there, here, "orders")
    assert difference.startswith("orders[0] read_committed: offset 4 has the timestamp")
    (line,) = imported(there, target, "orders").lines
    assert line.startswith("orders exists here but is not a mirror: it was promoted")
    send(here, "orders", ["only here"])
    commit(here, "billing", TopicPartition("orders", 0, 6))
    assert asyncio.run(reverse_offsets(Agents(there), Agents(here), ["orders"])) == [
        "committed 1 offsets at the source"
    ]
    assert committed(there, "billing", "orders") == 5, "the source has no more"


@pytest.mark.slow
def test_a_terminal_shows_how_many_offsets_are_here(source: Cluster, target: Cluster) -> None:
    created(source.bootstrap, "shown")
    send(source.bootstrap, "shown", [str(number) for number in range(20)])
    command = ["import", "run", "--once", "--from", source.bootstrap, "--topic", "shown"]
    terminal, its_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "lacuna", *command, "--bootstrap", target.bootstrap],
        stdout=subprocess.PIPE,
        stderr=its_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(its_end)
        shown = b""
        with suppress(OSError):  # EIO, once the command has ended
            while found := os.read(terminal, 1 << 16):
                shown += found
        assert process.stdout is not None
        assert process.stdout.read().startswith(b"copied 1 partition"), shown.decode()
    os.close(terminal)
    assert process.returncode == 0, shown.decode()
    assert b"offsets copied" in shown
    assert b"20/20" in shown


@pytest.mark.slow
def test_rights_that_the_target_refuses_are_counted_with_the_reason(target: Cluster) -> None:
    security = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    acls = [
        AclBinding(
            ResourceType.TOPIC, "guarded", ResourcePatternType.LITERAL, f"User:{name}", "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )
        for name in ("alice", "bob")
    ]  # fmt: skip
    with Cluster(parts=AgentParts(security=security)) as source:
        created(source.bootstrap, "guarded")
        admin = AdminClient({"bootstrap.servers": source.bootstrap})
        for added in admin.create_acls(acls).values():
            added.result(SECONDS)
        (line,) = imported(source.bootstrap, target, "guarded").lines
    assert line.startswith("2 of 2 ACLs were not copied: the agents here run without --authorizer.")


@pytest.mark.slow
def test_offsets_go_back_to_the_coordinator_of_each_group(
    target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, str] = {}
    ask = Broker.ask

    async def noting(broker: Broker, form: Any, answer: Any, wanted: int, request: Any) -> Any:
        if form is OFFSET_COMMIT_REQUEST:
            asked[request.group_id] = broker._address
        return await ask(broker, form, answer, wanted, request)

    monkeypatch.setattr(Broker, "ask", noting)
    with Cluster(agents=2) as source:
        there, here = source.bootstrap.partition(",")[0], target.bootstrap
        groups = [f"back-{number}" for number in range(8)]
        for bootstrap in (there, here):
            created(bootstrap, "back")
            send(bootstrap, "back", ["a"])
        for group in groups:
            commit(here, group, TopicPartition("back", 0, 1))
        lines = asyncio.run(reverse_offsets(Agents(there), Agents(here), ["back"]))
        assert lines == [f"committed {len(groups)} offsets at the source"]
        admin = AdminClient({"bootstrap.servers": there})
        found = admin.describe_consumer_groups(groups)
        coordinators = {group: found[group].result(SECONDS).coordinator for group in groups}
    assert asked == {group: f"{each.host}:{each.port}" for group, each in coordinators.items()}
    assert len(set(asked.values())) == 2


def test_a_coordinator_that_loads_its_state_is_asked_again() -> None:
    loads = failure_of("it does not list its groups", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert isinstance(loads, ClusterFailed)
    assert str(loads) == "it does not list its groups: COORDINATOR_LOAD_IN_PROGRESS"
    refuses = failure_of("it does not list its groups", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert isinstance(refuses, ClusterRefused)


@pytest.mark.slow
def test_a_topic_is_promoted_at_a_named_offset(source: Cluster, target: Cluster) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "busy")
    send(there, "busy", ["a", "b"])
    imported(there, target, "busy")
    send(there, "busy", ["c"])

    def promote(offset: int, partition: int = 0) -> list[str]:
        given = Cutover(names=["busy"], offsets={("busy", partition): offset})
        return asyncio.run(cut_over(Agents(there), Agents(here), given))

    with pytest.raises(UserError, match="the copy ends at offset 2, before 3; let"):
        promote(3)
    with pytest.raises(
        UserError, match=r"an offset was specified for busy\[1\], which is not among"
    ):
        promote(2, partition=1)
    assert promote(2) == ["promoted busy; 1 offsets of the source were not copied"]


def test_a_promotion_waits_for_the_rest(source: Cluster, target: Cluster) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "soon")
    imported(there, target, "soon")
    send(there, "soon", ["a"])

    async def promote() -> list[str]:
        given = Cutover(names=["soon"], wait_seconds=SECONDS)
        waiting = asyncio.ensure_future(cut_over(Agents(there), Agents(here), given))
        await asyncio.to_thread(imported, there, target, "soon")
        return await waiting

    assert asyncio.run(promote()) == ["promoted soon: producers and consumers can use it now"]


def test_a_question_that_is_cancelled_leaves_no_answer_behind(source: Cluster) -> None:
    async def ask() -> None:
        async with Kafka(Agents(source.bootstrap), "the source") as there:
            asking = asyncio.ensure_future(there.topics())
            await asyncio.sleep(0)  # it has been sent
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            offsets = await there.offsets([("none", 0)], LATEST, READ_COMMITTED)
            assert offsets == {}

    asyncio.run(ask())


@pytest.mark.slow
def test_what_is_open_at_the_source_is_not_here_until_it_is_decided(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "tx")
    producer = Producer({"bootstrap.servers": there, "transactional.id": "t"})
    producer.init_transactions()
    for is_committed in (True, False):
        producer.begin_transaction()
        for value in ("1", "2"):
            producer.produce("tx", value, partition=0)
        producer.flush()
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
    producer.begin_transaction()
    producer.produce("tx", b"open", partition=0)
    producer.flush()
    send(there, "tx", ["behind"])
    imported(there, target, "tx")

    async def shown() -> tuple[list[Standing], list[SourceTransaction]]:
        async with Kafka(Agents(there), "there") as one, Kafka(Agents(here), "here") as two:
            return await standings(one, two, ["tx"]), await source_transactions(one)

    (standing,), (transaction,) = asyncio.run(shown())
    assert (standing.lag, standing.undecided) == (0, 2)
    assert (transaction.transactional_id, transaction.state) == ("t", "Ongoing")
    assert (transaction.partitions, transaction.started_ms > 0) == ([("tx", 0)], True)
    assert read(here, "tx", 0, "read_uncommitted")[0] == 4, "aborted records are passed"
    with pytest.raises(UserError, match=r"2 offsets are undecided at the source.* of 't';"):
        asyncio.run(cut_over(Agents(there), Agents(here), Cutover(names=["tx"])))
    producer.commit_transaction()
    imported(there, target, "tx")
    for level in LEVELS:
        assert read(here, "tx", 0, level) == read(there, "tx", 0, "read_committed")


@pytest.mark.slow
def test_a_log_that_begins_late_begins_as_late_here_and_a_gap_must_be_accepted(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "late")
    send(there, "late", ["1", "2", "3"])
    admin = AdminClient({"bootstrap.servers": there})

    def delete(offset: int) -> None:
        place = TopicPartition("late", 0, offset)
        admin.delete_records([place])[place].result(SECONDS)

    delete(2)
    imported(there, target, "late")
    assert read(here, "late", 0, "read_committed") == read(there, "late", 0, "read_committed")
    send(there, "late", ["4", "5", "6"])
    delete(5)
    run = imported(there, target, "late")
    (line,) = run.lines
    assert line.startswith(
        "late[0] ends at offset 3 here, but the source has already deleted its records below 5: add --accept-gaps"
    )
    imported(there, target, "late", accepts_gaps=True)
    assert read(here, "late", 0, "read_committed") == read(there, "late", 0, "read_committed")


def test_a_topic_that_was_created_again_is_not_copied_over_the_old_one(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "again")
    send(there, "again", ["old"])
    imported(there, target, "again")
    admin = AdminClient({"bootstrap.servers": there})
    admin.delete_topics(["again"])["again"].result(SECONDS)
    (line,) = imported(there, target, "again").lines
    assert line.startswith("again was deleted at the source: promote its copy")
    created(there, "again")
    send(there, "again", ["new", "newer"])
    (line,) = imported(there, target, "again").lines
    assert line.startswith("again was deleted and recreated at the source")
    _, rows = read(here, "again", 0, "read_committed")
    assert [row[3] for row in rows] == [b"old"]


def test_a_copy_that_ends_after_its_source_is_named(source: Cluster, target: Cluster) -> None:
    """The source has lost an offset that had already been copied."""
    created(source.bootstrap, "longer")
    send(source.bootstrap, "longer", ["kept"])
    imported(source.bootstrap, target, "longer")
    assert differences(source.bootstrap, target.bootstrap, "longer") == []

    async def copy_a_hole() -> None:
        async with Kafka(Agents(target.bootstrap), "the target") as here:
            topic = (await here.topics())["longer"]
            link = (await links_of(here))["longer"]
        async with control_of(target) as control:
            copy = Target(control, open_checked(target.store_url))
            await copy.open()
            hole = Stretch((topic.raw_id, 0), link, 1, 2, 0, [])
            assert await copy.commit(await copy.put([hole])) == [ErrorCode.NONE]
            await copy.close()

    asyncio.run(copy_a_hole())
    assert differences(source.bootstrap, target.bootstrap, "longer") == [
        "longer[0]: the copy ends at offset 2 and the source at 1: the source has lost its last offsets"
    ]


@pytest.mark.slow
def test_partitions_that_are_added_are_copied_too(source: Cluster, target: Cluster) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "wider")
    imported(there, target, "wider")
    topic = CreatePartitionsTopic(name="wider", partition_count=3)
    wider = Command(create_partitions=CreatePartitions(topics=[topic]))
    source.run(source.embedded.control.call(wider))
    producer = Producer({"bootstrap.servers": there})
    producer.produce("wider", b"x", partition=2)
    producer.flush(SECONDS)
    imported(there, target, "wider")
    assert read(here, "wider", 2, "read_committed") == read(there, "wider", 2, "read_committed")


def test_a_source_that_does_not_answer_is_named(target: Cluster) -> None:
    with pytest.raises(UserError, match=r"the source does not answer at 127\.0\.0\.1:1 \(.*\)"):
        imported("127.0.0.1:1", target)


def test_a_cluster_is_not_imported_into_itself(target: Cluster) -> None:
    with pytest.raises(UserError, match="the source is this same cluster"):
        imported(target.bootstrap, target)


@pytest.mark.slow
def test_importers_share_the_partitions_and_one_that_goes_leaves_them_to_the_others(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "shared", PARTITIONS)

    async def run() -> None:
        settings = ImportSettings(selection=Selection(["shared"]), renewal_seconds=0.1)
        async with control_of(target) as control, asyncio.timeout(SECONDS):
            importers = [
                importer_of(control, there, target, lambda _: None, settings) for _ in range(3)
            ]
            tasks = [asyncio.ensure_future(each.run()) for each in importers]
            while not all(each.progress.tracks for each in importers) or _shares(importers) != 1:
                await asyncio.sleep(0.02)
            described = await control.call(Command(describe_cluster=DescribeCluster()))
            reports = [each.report for each in described.cluster_described.importers]
            assert len(reports) == len(importers)
            assert {each.source for each in reports} == {reports[0].source}
            tasks[0].cancel()
            while _shares(importers[1:]) != 1:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(_send_to_all, there, "shared")
            while sum(each.progress.done for each in importers[1:]) < PARTITIONS:
                await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert differences(there, here, "shared") == []


@pytest.mark.slow
def test_a_source_that_goes_and_comes_back_is_followed_further(target: Cluster) -> None:
    lines: list[str] = []

    async def run(source: Cluster) -> None:
        settings = ImportSettings(selection=Selection(["restarted"]))
        async with control_of(target) as control, asyncio.timeout(SECONDS):
            importer = importer_of(control, source.bootstrap, target, lines.append, settings)
            running = asyncio.ensure_future(importer.run())
            while importer.progress.done < 1:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(source.kill)
            while not lines:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(source.start)
            await asyncio.to_thread(send, source.bootstrap, "restarted", ["after"])
            while importer.progress.done < 2 and not running.done():
                await asyncio.sleep(0.02)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    with Cluster() as source:
        created(source.bootstrap, "restarted")
        send(source.bootstrap, "restarted", ["before"])
        asyncio.run(run(source))
        assert all(line.startswith("restarting in 1 s: the source") for line in lines)
        assert differences(source.bootstrap, target.bootstrap, "restarted") == []
        _, rows = read(target.bootstrap, "restarted", 0, "read_committed")
        assert [row[3] for row in rows] == [b"before", b"after"]


@pytest.mark.slow
def test_an_import_that_ends_by_itself_leaves_nothing_to_one_that_was_killed(
    source: Cluster, target: Cluster
) -> None:
    there, here = source.bootstrap, target.bootstrap
    created(there, "rest", PARTITIONS)
    _send_to_all(there, "rest")

    async def die() -> None:
        control = target.embedded.control
        lease = (await control.call(Command(open_lease=OpenLease()))).lease_opened
        told = ImportReport(source=source.embedded.control.cluster.cluster_id, topics="rest")
        renewal = RenewLease(lease_id=lease.lease_id, import_report=told)
        await control.call(Command(renew_lease=renewal))

    target.run(die())
    assert imported(there, target, "rest").progress.done == PARTITIONS
    assert differences(there, here, "rest") == []


@pytest.mark.parametrize("first", [1, 1_000, 65_535])
def test_importers_share_the_partitions_evenly(first: int) -> None:
    workers = range(first, first + 4)
    targets = [Target(mock.Mock(), mock.Mock()) for _ in workers]
    for target, lease_id in zip(targets, workers, strict=True):
        target._lease_id = lease_id
    keys = [(bytes([topic]) * 16, index) for topic in range(20) for index in range(50)]
    owners = [[each.owns(key, workers) for each in targets] for key in keys]
    assert {sum(each) for each in owners} == {1}
    counts = [sum(column) for column in zip(*owners, strict=True)]
    assert all(200 <= count <= 300 for count in counts), counts


def _shares(importers: Sequence[Importer]) -> float:
    """Return the average number of importers that copy a partition, or 0 if a partition is copied by none."""
    counts = [
        sum(("shared", index) in each.progress.tracks for each in importers)
        for index in range(PARTITIONS)
    ]
    return sum(counts) / PARTITIONS if all(counts) else 0


def _send_to_all(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(PARTITIONS):
        producer.produce(topic, b"x", partition=index)
    assert producer.flush(SECONDS) == 0


@pytest.mark.parametrize("inner", ["_session", "_copy"])
def test_an_importer_ends_although_its_tasks_fail_while_they_end(
    inner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_at_the_end() -> None:
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            raise OutranError("cut off") from None

    async def run() -> None:
        control = mock.AsyncMock()
        settings = ImportSettings(selection=Selection([]), is_once=True)
        here = Agents("127.0.0.1:1")
        importer = Importer(here, here, control, mock.Mock(), settings, lambda _: None)
        is_running = asyncio.Event()

        async def failing(*_: object) -> bool:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_at_the_end())
                await asyncio.sleep(0)
                is_running.set()
            return False

        monkeypatch.setattr(importer, inner, failing)
        monkeypatch.setattr(importer._target, "renew", mock.AsyncMock(return_value=[1]))
        asked = importer.run() if inner == "_session" else importer._share(mock.Mock(), mock.Mock())
        running = asyncio.ensure_future(asked)
        await is_running.wait()
        running.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError)

    asyncio.run(run())


def test_bytes_are_spread_over_time() -> None:
    async def spent(pace: int | None) -> float:
        loop = asyncio.get_running_loop()
        slept: list[float] = []
        budget = Budget(pace)
        began = loop.time()
        for _ in range(3):
            await budget.spend(100)
            slept.append(loop.time() - began)
        return slept[-1]

    assert asyncio.run(spent(10_000)) > 0.02
    assert asyncio.run(spent(None)) < SECONDS
