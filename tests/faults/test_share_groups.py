"""Kills members of a share group, agents and the leader while records are shared (KIP-932, KIP-1191).

    python -m tests.faults.test_share_groups --records 100000                      PostgreSQL, and two control planes
    python -m tests.faults.test_share_groups --records 3000 --journal sqlite       what the test does

Producers write transactions, half of which abort. Members accept, release and reject; some hold records until their
locks end. Each committed record must be accepted once, or appear in the dead-letter queue once. No aborted one may be
delivered, and the delivery count of a record must rise with each delivery. Prints the observations. The exit code is 1
if there is a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.shared.topic_configs import SET
from lacuna.logstore.records.batch import read_batches
from lacuna.wire.messages import share_groups as groups
from lacuna.wire.messages import share_records as records
from tests.agent.harness import RawClient
from tests.clients.librd import read
from tests.faults.load import Progress, TransactionalClient
from tests.faults.processes import Deployment, Process, end_by_exception
from tests.faults.takeovers import deployment
from tests.messages import nested

TOPIC, LETTERS, GROUP = "work", "dlq.work", "workers"
PARTITIONS: Final = 4
CONFIGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": "15000",
    "share.delivery.count.limit": "4",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}
ACCEPT, RELEASE, REJECT = 1, 2, 3
LOCK_SECONDS: Final = 15.0
LIMIT_SECONDS: Final = 1_200.0
#: (partition, offset)
At = tuple[int, int]


# --- a member, which is a process ---------------------------------------------------------------------------------


class Lost(Exception):
    """The agent did not answer."""


class Line:
    """A connection to any of the agents. It is replaced when it breaks."""

    def __init__(self, bootstrap: str) -> None:
        self._ports = [int(each.rpartition(":")[2]) for each in bootstrap.split(",")]
        self._client: RawClient | None = None

    async def ask(self, version: int, request: Any) -> Any:
        """Return the response. Raises Lost."""
        try:
            async with asyncio.timeout(30):
                if self._client is None:
                    self._client = await RawClient.connect(random.choice(self._ports))
                return await self._client.call(version, request)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            if self._client is not None:
                self._client.writer.close()
            self._client = None
            await asyncio.sleep(0.2)
            raise Lost from error


class Member:
    """Fetches records from its assigned partitions, and acknowledges them with its next fetch."""

    def __init__(self, bootstrap: str, slow: int) -> None:
        """After `slow` fetches with records, it holds records until their locks end. With 0, it never does."""
        self._beats, self._fetches = Line(bootstrap), Line(bootstrap)
        self._member_id = str(uuid4())
        self._slow = slow
        self._epoch = 0
        self._assigned: dict[bytes, tuple[int, ...]] = {}

    async def run(self) -> None:
        """Run as a member forever."""
        await asyncio.gather(self._beat(), self._take())

    async def _beat(self) -> None:
        while True:
            request = groups.ShareGroupHeartbeatRequest(
                GROUP,
                self._member_id,
                self._epoch,
                subscribed_topic_names=None if self._epoch else (TOPIC,),
            )
            with suppress(Lost):
                answer = await self._beats.ask(1, request)
                if answer.error_code in (25, 110):  # it is no longer known, or is fenced
                    self._epoch = 0
                elif not answer.error_code:
                    self._epoch = answer.member_epoch
                    if answer.assignment is not None:
                        self._assigned = {
                            each.topic_id: tuple(each.partitions)
                            for each in answer.assignment.topic_partitions
                        }
            await asyncio.sleep(1.0 if self._epoch else 0.1)

    async def _take(self) -> None:
        epoch, held = 0, dict[At, int]()
        held_since, fetches = 0.0, 0
        while True:
            if not self._assigned:
                await asyncio.sleep(0.05)
                continue
            ((topic_id, partitions),) = self._assigned.items()
            asked = time.monotonic()
            if held:
                say({"trying": _listed(held)})
            try:
                answer = await self._fetch(topic_id, partitions, epoch, held)
            except Lost:
                epoch, held = 0, {}
                continue
            if (
                answer.error_code
            ):  # the agent does not know the session, so nothing was acknowledged
                epoch, held = 0, {}
                await asyncio.sleep(0.1)
                continue
            epoch += 1
            parts = [each for topic in answer.responses for each in topic.partitions]
            failed = {
                each.partition_index
                for each in parts
                if each.acknowledge_error_code or each.error_code
            }
            # If others have finished a record since its lock ended, acknowledging it succeeds without effect.
            is_sure = time.monotonic() < held_since + LOCK_SECONDS - 1
            done = {at: kind for at, kind in held.items() if is_sure and at[0] not in failed}
            got = {row[0]: row[1:] for part in parts for row in _rows(part)}
            say(
                {
                    "asked": asked,
                    "at": time.monotonic(),
                    "done": _listed(done),
                    "got": [[*at, *row] for at, row in got.items()],
                }
            )
            held_since = time.monotonic()
            fetches += bool(got)
            if got and self._slow and not fetches % self._slow:
                await asyncio.sleep(LOCK_SECONDS + 1)
            held = {at: random.choices((ACCEPT, RELEASE, REJECT), (85, 12, 3))[0] for at in got}

    async def _fetch(
        self, topic_id: bytes, partitions: tuple[int, ...], epoch: int, held: dict[At, int]
    ) -> Any:
        wanted = {*partitions, *(partition for partition, _ in held)}
        asked = [
            records.FetchPartition(
                index,
                [
                    records.AcknowledgementBatch(offset, offset, (kind,))
                    for (partition, offset), kind in sorted(held.items())
                    if partition == index
                ],
            )
            for index in sorted(wanted)
        ]
        request = records.ShareFetchRequest(
            group_id=GROUP,
            member_id=self._member_id,
            share_session_epoch=epoch,
            max_wait_ms=500,
            max_records=200,
            topics=[records.FetchTopic(topic_id, asked)],
        )
        return await self._fetches.ask(2, request)


def _rows(part: Any) -> Iterator[tuple[At, int, str]]:
    """Yield ((partition, offset), delivery count, value) for each acquired record."""
    counts = {
        offset: run.delivery_count
        for run in part.acquired_records
        for offset in range(run.first_offset, run.last_offset + 1)
    }
    for batch in read_batches(b"".join(part.records or ())):
        for record in batch.records():
            if record.offset in counts:
                value = (record.value or b"").decode()
                yield (part.partition_index, record.offset), counts.pop(record.offset), value
    for offset, count in counts.items():
        yield (part.partition_index, offset), count, ""  # acquired but not sent: always wrong


def _listed(kinds: dict[At, int]) -> list[tuple[int, int, int]]:
    return [(*at, kind) for at, kind in kinds.items()]


def say(what: dict[str, Any]) -> None:
    """Write one line of observations."""
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


# --- what is checked ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Observations:
    """What the members reported."""

    deliveries: dict[At, list[tuple[float, float, int, str]]] = field(default_factory=dict)
    finished: dict[At, list[tuple[float, int]]] = field(default_factory=dict)
    tried: dict[At, set[int]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, line: str) -> None:
        """Process a line that a member printed."""
        try:
            what = json.loads(line)
        except ValueError:
            self.others.append(line)
            return
        with self.lock:
            for partition, offset, kind in what.get("trying", ()):
                self.tried.setdefault((partition, offset), set()).add(kind)
            for partition, offset, kind in what.get("done", ()):
                if kind != RELEASE:
                    ends = self.finished.setdefault((partition, offset), [])
                    ends.append((what["at"], kind))
            for partition, offset, count, value in what.get("got", ()):
                rows = self.deliveries.setdefault((partition, offset), [])
                rows.append((what["asked"], what["at"], count, value))

    def violations(self, committed: dict[At, str], letters: list[At]) -> Iterator[str]:
        """Yield the violations, given the committed records and the records in the dead-letter queue."""
        often = Counter(letters)
        yield from (f"{at} has {count} dead letters" for at, count in often.items() if count > 1)
        yield from (f"{at} has a letter and was aborted" for at in often.keys() - committed.keys())
        for at, rows in self.deliveries.items():
            if at not in committed:
                yield f"{at} was delivered and was aborted"
            elif {value for *_, value in rows} != {committed[at]}:
                yield f"{at} was delivered with another value"
            counts = [count for _, _, count, _ in sorted(rows)]
            if sorted(set(counts)) != sorted(counts) or max(counts) > 4:
                yield f"{at} was delivered with the counts {counts}"
        for at in committed:
            yield from self._fate(at, is_buried=at in often)

    def _fate(self, at: At, *, is_buried: bool) -> Iterator[str]:
        ends = self.finished.get(at, [])
        kinds = [kind for _, kind in ends]
        if len(ends) > 1:
            yield f"{at} was finished as {kinds}"
        if is_buried and ACCEPT in kinds:
            yield f"{at} was accepted and has a dead letter"
        if not is_buried and (REJECT in kinds or ACCEPT not in {*kinds, *self.tried.get(at, ())}):
            yield f"{at} was neither accepted nor is in the dead-letter queue: {kinds}"
        if ends:
            first = min(when for when, _ in ends)
            late = [asked for asked, *_ in self.deliveries.get(at, ()) if asked > first]
            yield from (f"{at} was delivered after it was finished" for _ in late[:1])


# --- the cluster and its load -------------------------------------------------------------------------------------


class HalfAborting(TransactionalClient):
    """Writes transactions of a hundred records, and aborts every other one."""

    def _transaction(self, who: Producer) -> None:
        number = self._number = getattr(self, "_number", 0) + 1
        who.begin_transaction()
        for at in range(100):
            value = f"{self._name} {number} {at}"
            who.produce(self.topic, value, partition=self._rng.randrange(PARTITIONS))
        if number % 2:
            self.insist(lambda: who.commit_transaction(60.0))
            self.progress.add(100)
        else:
            self.insist(lambda: who.abort_transaction(60.0))


@contextmanager
def cluster(journal: str, folder: Path) -> Iterator[Deployment]:
    """Start two agents, and two control planes unless the journal is not shared."""
    if journal != "sqlite":
        with deployment(journal, folder) as made:
            yield made
        return
    with Deployment(folder / "control", 2, [f"--store=file://{folder / 'objects'}"]) as made:
        yield made


async def configure(bootstrap: str) -> None:
    """Set the group's configs."""
    changes = [
        nested(44, 1, "AlterableConfig", name=name, config_operation=SET, value=value)
        for name, value in CONFIGS.items()
    ]
    group = nested(
        44, 1, "AlterConfigsResource", resource_type=32, resource_name=GROUP, configs=changes
    )
    client = await RawClient.connect(int(bootstrap.split(",")[0].rpartition(":")[2]))
    answer = await client.ask(44, 1, resources=[group])
    assert not answer.responses[0].error_code, answer
    await client.close()


async def lag(line: Line) -> int:
    """Return how many records the group has not finished, or -1 if that is unknown."""
    request = groups.DescribeShareGroupOffsetsRequest(
        [groups.DescribeShareGroupOffsetsRequestGroup(GROUP, None)]
    )
    with suppress(Lost):
        answer = await line.ask(1, request)
        lags = [
            part.lag
            for group in answer.groups
            for topic in group.topics
            for part in topic.partitions
        ]
        if len(lags) == PARTITIONS and -1 not in lags:
            return sum(lags)
    return -1


def run(
    count: int, journal: str, folder: Path, *, members: int, kills: int, slow: int
) -> list[str]:
    """Share `count` committed records among members, kill each kind of process in turn, and return the violations."""
    seen, progress = Observations(), Progress()
    with ExitStack() as stack:
        made = stack.enter_context(cluster(journal, folder))
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        queue = {"errors.deadletterqueue.group.enable": "true"}
        for new in (NewTopic(TOPIC, PARTITIONS), NewTopic(LETTERS, 2, config=queue)):
            admin.create_topics([new])[new.topic].result(60)
        asyncio.run(configure(made.bootstrap))
        workers = [
            Process(
                f"member {number}",
                "tests.faults.test_share_groups",
                ["--member", made.bootstrap, "--slow", str(slow if number < 2 else 0)],
                heard=seen.hear,
            ).start()
            for number in range(members)
        ]
        for worker in workers:
            stack.callback(worker.discard)
        producers = [
            HalfAborting(made.bootstrap, TOPIC, progress, PARTITIONS, number) for number in range(4)
        ]
        began = time.monotonic()
        for producer in producers:
            producer.start()
        for number in range(kills):
            share = count * (number + 1) // (kills + 1)
            assert progress.wait_for(share, LIMIT_SECONDS), "the producers make no progress"
            victims = (workers[number % members], made.agents[number % 2], made.leader())
            victim = victims[number % 3]
            victim.kill()
            victim.start()
        assert progress.wait_for(count, LIMIT_SECONDS), "the producers make no progress"
        for producer in producers:
            producer.stop()
        left = _await_end(made.bootstrap)
        seconds = time.monotonic() - began
        for worker in workers:
            worker.discard()
        committed = {
            (partition, offset): bytes(value).decode()
            for partition in range(PARTITIONS)
            for offset, value in read(made.bootstrap, TOPIC, partition=partition).records
        }
        places = {value: at for at, value in committed.items()}
        letters = [
            places.get(value.decode(), (-1, -1))
            for partition in range(2)
            for value in read(made.bootstrap, LETTERS, partition=partition).values
        ]
    violations = [*left, *seen.violations(committed, letters), *seen.others]
    kinds = Counter(kind for ends in seen.finished.values() for _, kind in ends)
    counts = Counter(max(row[2] for row in rows) for rows in seen.deliveries.values())
    sys.stdout.write(
        f"{len(committed):,} committed records among {members} members in {seconds:.0f} s, {kills} kills: "
        f"{sum(map(len, seen.deliveries.values())):,} deliveries, {kinds[ACCEPT]:,} acceptances confirmed, "
        f"{len(letters):,} dead letters, of which {kinds[REJECT]:,} for confirmed rejections; "
        f"records by their last delivery: {dict(sorted(counts.items()))}; {len(violations)} violations\n"
    )
    return violations


def _await_end(bootstrap: str) -> list[str]:
    """Wait until the group has finished everything."""

    async def wait() -> list[str]:
        line, deadline = Line(bootstrap), time.monotonic() + LIMIT_SECONDS
        while (left := await lag(line)) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return [f"{left} records were not finished"] if left else []

    return asyncio.run(wait())


@pytest.mark.slow
def test_every_committed_record_is_accepted_once_or_is_a_dead_letter(tmp_path: Path) -> None:
    assert run(3_000, "sqlite", tmp_path, members=4, kills=3, slow=8) == []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument(
        "--journal", default="postgresql", choices=("sqlite", "postgresql", "bucket")
    )
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--member", metavar="BOOTSTRAP", help="be a member of the group")
    parser.add_argument(
        "--slow", type=int, default=20, help="after so many fetches, two members are slow"
    )
    asked = parser.parse_args()
    if asked.member:
        asyncio.run(Member(asked.member, asked.slow).run())
        return
    end_by_exception()
    with tempfile.TemporaryDirectory() as folder:
        violations = run(
            asked.records,
            asked.journal,
            Path(folder),
            members=asked.members,
            kills=asked.kills,
            slow=asked.slow,
        )
    sys.stdout.writelines(f"{each}\n" for each in violations[:50])
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()
