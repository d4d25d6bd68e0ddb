"""DeleteRecords over the wire: every version, and errors."""

import pytest

from tests.agent.apis.clusters import SECOND, Setup, topic
from tests.messages import nested


@pytest.mark.parametrize("version", range(3))
async def test_delete_records_of_what_is_not_there(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t", 2))
    rows = tuple(
        nested(
            21,
            version,
            "DeleteRecordsTopic",
            name=name,
            partitions=tuple(
                nested(21, version, "DeleteRecordsPartition", partition_index=i, offset=offset)
                for i, offset in pairs
            ),
        )
        for name, pairs in (("t", ((0, 0), (5, 0), (1, 9))), ("nope", ((0, -1),)))
    )
    answer = await setup.ask(21, version, topics=rows, timeout_ms=SECOND)
    found = [(p.error_code, p.low_watermark) for t in answer.topics for p in t.partitions]
    assert found == [(0, 0), (3, -1), (1, -1), (3, -1)]


async def test_of_a_partition_that_is_named_twice_the_last_offset_counts(setup: Setup) -> None:
    """As in Kafka. The answer names it once."""
    await setup.create_topics(topic("t"))
    partitions = tuple(
        nested(21, 2, "DeleteRecordsPartition", partition_index=0, offset=offset)
        for offset in (9, 0)
    )
    rows = (nested(21, 2, "DeleteRecordsTopic", name="t", partitions=partitions),)
    answer = await setup.ask(21, 2, topics=rows, timeout_ms=SECOND)
    found = [(p.error_code, p.low_watermark) for t in answer.topics for p in t.partitions]
    assert found == [(0, 0)]
