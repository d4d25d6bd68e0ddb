"""Tests a transaction in Apache Kafka that no coordinator knows of: what an import reports, and how it ends."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from lacuna.importing.cluster import Kafka
from lacuna.importing.transactions import (
    HangingTransaction,
    hanging_transactions,
    source_transactions,
)
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.operating.kafka import Agents
from lacuna.wire.messages import transactions as wire
from lacuna.wire.messages.produce import (
    PRODUCE_REQUEST,
    PRODUCE_RESPONSE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.forked import LACUNA, ForkedCluster
from tests.importing.sources import SECONDS, apache_kafka, created, end_hanging

TOPIC: Final = "orders"
ID: Final = "ghost"
HOUR_MS: Final = 3_600_000


@pytest.mark.slow
@pytest.mark.java
def test_a_transaction_that_hangs_is_named_with_the_command_that_ends_it(tmp_path: Path) -> None:
    unverified = "transaction.partition.verification.enable=false\n"
    with (
        apache_kafka(tmp_path / "kafka", "4.4", unverified) as there,
        ForkedCluster(tmp_path / "here") as here,
    ):

        def lacuna(*arguments: str) -> subprocess.CompletedProcess[str]:
            places = ["--from", there.bootstrap, "-b", here.bootstrap]
            command = [*LACUNA, "import", *arguments, *places]
            return subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )

        created(there.bootstrap, TOPIC)
        producer = Producer({"bootstrap.servers": there.bootstrap, "transactional.id": "live"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(TOPIC, b"open")
        producer.flush(SECONDS)
        assert found_in(there.bootstrap) == []
        producer.commit_transaction(SECONDS)

        producer_id = asyncio.run(hang(there.bootstrap))
        (hanging,) = found_in(there.bootstrap)
        assert hanging == HangingTransaction((TOPIC, 0), 2, producer_id, 0)
        assert hanging.idle_seconds >= HOUR_MS // 1000
        assert lacuna("run", "--once").returncode == 0
        shown = lacuna("status")
        assert shown.returncode == 0, shown.stderr
        assert told(hanging) in untimed(shown.stderr)
        kept = lacuna("promote", TOPIC)
        assert kept.returncode == 1
        assert f"nothing was promoted: {told(hanging)}" in untimed(kept.stderr)

        assert asyncio.run(end_hanging(there.bootstrap, [(TOPIC, 0)])) == [hanging]
        assert found_in(there.bootstrap) == []
        assert lacuna("run", "--once").returncode == 0
        assert lacuna("promote", TOPIC).returncode == 0


def told(hanging: HangingTransaction) -> str:
    return untimed(str(hanging))


def untimed(text: str) -> str:
    """Return a text on one line, without its durations."""
    return re.sub(r"\d+ s ago", "# s ago", " ".join(text.split()))


def _ago_ms(milliseconds: int) -> int:
    return wall_clock_ms() - milliseconds


def found_in(bootstrap: str) -> list[HangingTransaction]:
    async def look() -> list[HangingTransaction]:
        async with Kafka(Agents(bootstrap), "the source") as source:
            return await hanging_transactions(source, [(TOPIC, 0)], wall_clock_ms())

    return asyncio.run(look())


async def hang(bootstrap: str) -> int:
    """Write a record with a timestamp an hour ago in a transaction that the coordinator has not begun. Return its
    producer id.
    """
    async with Kafka(Agents(bootstrap), "the source") as source:
        # Kafka answers a commit before it has written the marker.
        async with asyncio.timeout(SECONDS):
            while any(each.partitions for each in await source_transactions(source)):
                await asyncio.sleep(0.1)
        begun = await source.ask(
            wire.INIT_PRODUCER_ID_REQUEST,
            wire.INIT_PRODUCER_ID_RESPONSE,
            4,
            wire.InitProducerIdRequest(ID, 60_000),
        )
        assert begun.error_code == 0
        batch = BatchToWrite(
            records=(NewRecord(offset_delta=0, timestamp=_ago_ms(HOUR_MS), value=b"lost"),),
            is_transactional=True,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            base_sequence=0,
        ).encode()
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, memoryview(batch))])
        answer = await source.ask(
            PRODUCE_REQUEST, PRODUCE_RESPONSE, 11, ProduceRequest(ID, -1, 30_000, [data])
        )
        assert answer.responses[0].partition_responses[0].error_code == 0
        return begun.producer_id
