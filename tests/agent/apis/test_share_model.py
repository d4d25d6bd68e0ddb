"""A model of share groups: what each command gives each member, here and on Apache Kafka 4.4 (KIP-932, KIP-1191).

log 10             ->            appends ten records as one batch; `log 2 open` in a transaction, `end abort` ends it
a joins            -> ok         subscribes, and waits for its partition; `a leaves` ends that
a gets 5           -> 0-4x1      acquires at most five records; x1 is their first delivery
a acks 0-4         -> ok         accepts; `0-4=release`, `0-4=reject`, `0-4=renew`
a closes           -> ok         ends its session
lag                -> 5          the unfinished records; Kafka writes the start offset later
queue              ->            gives the group a dead-letter queue; with `queue off`, the topic may not be one
letters            -> 0x1 rejected    the contents of the queue

    python -m tests.agent.apis.test_share_model HOST:PORT    runs the tables on any server, and prints differences
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from lacuna.agent.housekeeping import Housekeeping, HousekeepingSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import SET
from lacuna.logstore.records.batch import BatchToWrite, NewRecord, read_batches
from lacuna.wire.messages import configs as configs_wire
from lacuna.wire.messages import fetch, topics, transactions
from lacuna.wire.messages import produce as wire
from lacuna.wire.messages import share_groups as groups
from lacuna.wire.messages import share_records as records
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient
from tests.golden.broker import kafka

TYPES: Final = {"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": 4}
REASONS: Final = {
    "Offset rejected by client.": "rejected",
    "Offset delivery count exceeded the threshold.": "too often",
}
_RECORD_LIMIT: Final = 1
_LIMIT_SECONDS: Final = 30.0

#: The tables by title.
TABLES: Final = dict(
    table.split("\n", 1)
    for table in Path(__file__).with_suffix(".txt").read_text().strip().split("\n\n")
)


class Stage:
    """Runs a table against a server, with its own topic, group and dead-letter queue."""

    def __init__(self, client: RawClient, wait_ms: int) -> None:
        """A fetch waits for at most `wait_ms`."""
        self._client = client
        self._wait_ms = wait_ms
        name = uuid4().hex[:12]
        self._topic, self._group, self._queue_name = f"t-{name}", f"g-{name}", f"dlq.{name}"
        self._topic_id = b""
        self._epochs: dict[str, int] = {}
        self._sessions: dict[str, int] = {}
        self._producer: tuple[int, int] = (-1, -1)
        self._expected = ""

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def group(self) -> str:
        return self._group

    async def play(self, table: str) -> list[tuple[str, str, str]]:
        """Run a table from the beginning, and return (command, expected, result) for each line."""
        await self.begin()
        lines = await self.go_on(table)
        for who in [*self._sessions]:
            await self._leaves(who)
        return lines

    async def begin(self) -> None:
        """Create the topic and the group's config."""
        await self._create(self._topic)
        await self._find_coordinator(0)
        await self._set("share.auto.offset.reset", "earliest")

    async def go_on(self, table: str) -> list[tuple[str, str, str]]:
        """Run the lines of a table, and return (command, expected, result) for each."""
        lines = []
        for line in table.strip().splitlines():
            command, _, expected = (part.strip() for part in line.partition("->"))
            self._expected = expected
            lines.append((command, expected, await self._run(*command.split())))
        return lines

    async def _find_coordinator(self, kind: int) -> None:
        """Wait until Kafka has created the topic for groups (0) or for transactions (1)."""
        while True:
            answer = await self._client.ask(10, 4, key_type=kind, coordinator_keys=[self._group])
            if not answer.coordinators[0].error_code:
                return
            await asyncio.sleep(0.1)

    async def _run(self, *words: str) -> str:
        if words[0] in ("log", "set", "end", "lag", "queue", "letters"):
            return str(await getattr(self, f"_{words[0]}")(*words[1:]))
        who, verb, *rest = words
        return str(await getattr(self, f"_{verb}")(who, *rest))

    async def _create(self, name: str, **configs: str) -> None:
        made = topics.CreatableTopic(
            name, 1, 1, configs=[topics.CreatableTopicConfig(*each) for each in configs.items()]
        )
        answer = await self._client.call(7, topics.CreateTopicsRequest([made], 30_000))
        assert not answer.topics[0].error_code, answer
        if not self._topic_id:
            self._topic_id = answer.topics[0].topic_id

    async def _set(self, name: str, value: str) -> str:
        changes = [configs_wire.AlterableConfig(name, SET, value)]
        group = configs_wire.AlterConfigsResource(32, self._group, changes)
        answer = await self._client.call(1, configs_wire.IncrementalAlterConfigsRequest([group]))
        code = answer.responses[0].error_code
        return ErrorCode(code).name if code else ""

    async def _queue(self, is_on: str = "on") -> str:
        on = {"errors.deadletterqueue.group.enable": "true"} if is_on == "on" else {}
        await self._create(self._queue_name, **on)
        return await self._set("errors.deadletterqueue.topic.name", self._queue_name)

    async def _log(self, count: str, kind: str = "") -> str:
        if kind and self._producer[0] < 0:
            self._producer = await self._begin()
        is_open = bool(kind)
        batch = BatchToWrite(
            records=tuple(
                NewRecord(offset_delta=n, timestamp=1, value=b"v%d" % n) for n in range(int(count))
            ),
            is_transactional=is_open,
            producer_id=self._producer[0] if is_open else -1,
            producer_epoch=self._producer[1] if is_open else -1,
            base_sequence=0 if is_open else -1,
        )
        part = wire.PartitionProduceData(0, memoryview(batch.encode()))
        asked = wire.ProduceRequest(
            transactional_id=self._group if is_open else None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[wire.TopicProduceData(self._topic, partition_data=[part])],
        )
        answer = await self._client.call(9, asked)
        assert not answer.responses[0].partition_responses[0].error_code, answer
        return ""

    async def _begin(self) -> tuple[int, int]:
        """Begin a transaction that includes the partition, and return its producer."""
        await self._find_coordinator(1)
        while True:
            made = await self._client.call(
                4, transactions.InitProducerIdRequest(self._group, 60_000)
            )
            if not made.error_code:
                break
            await asyncio.sleep(0.1)  # Kafka's coordinator is being found
        rows = [transactions.AddPartitionsToTxnTopic(self._topic, [0])]
        asked = transactions.AddPartitionsToTxnRequest(
            (), self._group, made.producer_id, made.producer_epoch, rows
        )
        while True:
            added = await self._client.call(3, asked)
            (result,) = added.results_by_topic_v3_and_below
            if not result.results_by_partition[0].partition_error_code:
                return made.producer_id, made.producer_epoch
            await asyncio.sleep(0.1)

    async def _end(self, outcome: str) -> str:
        asked = transactions.EndTxnRequest(self._group, *self._producer, outcome == "commit")
        answer = await self._client.call(3, asked)
        assert not answer.error_code, answer
        return ""

    async def _joins(self, who: str) -> str:
        while True:
            answer = await self._beat(who, self._epochs.get(who, 0))
            if answer.error_code:
                return ErrorCode(answer.error_code).name
            self._epochs[who] = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return "ok"
            await asyncio.sleep(0.1)

    async def _beats(self, who: str) -> str:
        """Send one heartbeat, and return the member's epoch."""
        answer = await self._beat(who, self._epochs.get(who, 0))
        self._epochs[who] = answer.member_epoch
        return str(answer.member_epoch)

    async def _beat(self, who: str, epoch: int) -> Any:
        names = (self._topic,) if epoch == 0 else None
        asked = groups.ShareGroupHeartbeatRequest(
            self._group, self._member(who), epoch, subscribed_topic_names=names
        )
        while True:
            answer = await self._client.call(1, asked)
            if answer.error_code not in (
                14,
                15,
                16,
            ):  # the coordinator is loading, or does not exist yet
                return answer
            await asyncio.sleep(0.1)

    def _member(self, who: str) -> str:
        return f"{who}{'A' * 21}"  # Kafka wants a UUID's form

    async def _leaves(self, who: str) -> str:
        self._epochs.pop(who, None)
        self._sessions.pop(who, None)
        answer = await self._beat(who, -1)
        return ErrorCode(answer.error_code).name if answer.error_code else "ok"

    async def _gets(self, who: str, most: str) -> str:
        deadline = asyncio.get_running_loop().time() + _LIMIT_SECONDS
        while True:
            got = await self._fetch(who, int(most))
            if got or not self._expected or asyncio.get_running_loop().time() > deadline:
                break
        if self._expected == "some":  # Kafka acquires the offset of its marker, too
            return "some" if got else ""
        return got

    async def _fetch(self, who: str, most: int) -> str:
        epoch = self._sessions.get(who, 0)
        answer = await self._client.call(
            2,
            records.ShareFetchRequest(
                self._group,
                self._member(who),
                epoch,
                max_wait_ms=self._wait_ms,
                min_bytes=1,
                max_records=most,
                batch_size=most,
                share_acquire_mode=_RECORD_LIMIT,
                topics=[records.FetchTopic(self._topic_id, [records.FetchPartition(0)])]
                if epoch == 0
                else (),
            ),
        )
        assert not answer.error_code, answer
        self._sessions[who] = epoch + 1
        runs = [
            run
            for topic in answer.responses
            for part in topic.partitions
            for run in part.acquired_records
        ]
        return " ".join(
            f"{run.first_offset}-{run.last_offset}x{run.delivery_count}" for run in runs
        )

    async def _acks(self, who: str, what: str) -> str:
        offsets, _, kind = what.partition("=")
        first, _, last = offsets.partition("-")
        batch = records.AcknowledgementBatch(
            int(first), int(last or first), (TYPES[kind or "accept"],)
        )
        answer = await self._acknowledge(who, self._sessions[who], batch)
        self._sessions[who] += 1
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        code = answer.responses[0].partitions[0].error_code
        return ErrorCode(code).name if code else "ok"

    async def _closes(self, who: str) -> str:
        answer = await self._acknowledge(who, -1)
        del self._sessions[who]
        return ErrorCode(answer.error_code).name if answer.error_code else "ok"

    async def _acknowledge(self, who: str, epoch: int, *batches: Any) -> Any:
        parts = [records.AcknowledgePartition(0, batches)]
        return await self._client.call(
            2,
            records.ShareAcknowledgeRequest(
                self._group,
                self._member(who),
                epoch,
                is_renew_ack=any(TYPES["renew"] in each.acknowledge_types for each in batches),
                topics=[records.AcknowledgeTopic(self._topic_id, parts)] if batches else (),
            ),
        )

    async def _lag(self) -> str:
        """Return the number of unfinished records."""
        deadline = asyncio.get_running_loop().time() + _LIMIT_SECONDS
        while True:
            topics = [groups.DescribeShareGroupOffsetsRequestTopic(self._topic, (0,))]
            answer = await self._client.call(
                1,
                groups.DescribeShareGroupOffsetsRequest(
                    [groups.DescribeShareGroupOffsetsRequestGroup(self._group, topics)]
                ),
            )
            parts = [part for topic in answer.groups[0].topics for part in topic.partitions]
            found = " ".join(str(each.lag) for each in parts)
            if found == self._expected or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(0.1)

    async def _letters(self) -> str:
        """Return the dead letters: offset, delivery count, reason and value. Kafka writes them later."""
        deadline = asyncio.get_running_loop().time() + _LIMIT_SECONDS
        while True:
            found = await self._read_letters()
            if found == self._expected or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(0.1)

    async def _read_letters(self) -> str:
        part = fetch.FetchPartition(0, partition_max_bytes=1 << 20)
        topic = fetch.FetchTopic(self._queue_name, partitions=[part])
        asked = fetch.FetchRequest(max_wait_ms=0, topics=[topic])
        answer = await self._client.call(12, asked)
        found = []
        for batch in read_batches(b"".join(answer.responses[0].partitions[0].records or ())):
            for record in batch.records():
                about = {
                    name.decode().removeprefix("__dlq.errors."): (value or b"").decode()
                    for name, value in record.headers
                }
                assert (about["topic"], about["partition"]) == (self._topic, "0")
                assert about["group"] == self._group
                reason = REASONS[about["message"]]
                value = (record.value or b"").decode()
                found.append(
                    f"{about['offset']}x{about['delivery.count']} {reason} {value}".strip()
                )
        return ", ".join(found)


async def play_all(port: int, wait_ms: int) -> list[str]:
    """Run all tables against a server, and return the differences."""
    different = []
    for name, table in TABLES.items():
        client = await RawClient.connect(port)
        for command, expected, result in await Stage(client, wait_ms).play(table):
            if result != expected:
                different.append(f"{name}: {command} -> {result}, not {expected}")
        await client.close()
    return different


@pytest.mark.slow
async def test_the_model_is_right_here(setup: Setup) -> None:
    keeping = Housekeeping(setup.running.context, HousekeepingSettings()).start()
    try:
        assert await play_all(setup.running.server.port, wait_ms=50) == []
    finally:
        await keeping.stop()


@pytest.mark.java
@pytest.mark.slow
def test_the_model_is_right_on_kafka(tmp_path: Path) -> None:
    with kafka(tmp_path, version="4.4.0") as bootstrap:
        port = int(bootstrap.rpartition(":")[2])
        assert asyncio.run(play_all(port, wait_ms=500)) == []


def main() -> None:
    """Run the tables against the server named on the command line. The exit code is 1 if anything differs."""
    port = int(sys.argv[1].rpartition(":")[2])
    different = asyncio.run(play_all(port, wait_ms=500))
    sys.stdout.writelines(f"{each}\n" for each in different)
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
