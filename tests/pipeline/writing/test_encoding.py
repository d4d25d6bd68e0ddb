"""Tests the conversion of Arrow rows with any buffer layout to records."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.datasource.writing.encoding import Encoder, row_sizes
from lacuna.pipeline.datasource.writing.rows import normalize
from lacuna.pipeline.datasource.writing.topics import Target, Targets

from .tasks import batch_of

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
PAIRS = st.fixed_dictionaries(
    {"key": st.text(max_size=4), "value": st.none() | st.binary(max_size=4)}
)
ROW = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=6),
        "value": st.none() | st.binary(max_size=40),
        "headers": st.none() | st.lists(PAIRS, max_size=3),
        "timestamp": st.none() | st.integers(0, 10**15),
    }
)


def target(max_message_bytes: int = 400) -> Target:
    configs = {"max.message.bytes": str(max_message_bytes)}
    topic = Topic(topic_id=bytes(16), name="t", partition_count=1, configs=configs)
    return Targets({"t": topic}).of("t")


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=12), st.data(), st.sampled_from(list(Codec)))
def test_records_are_the_rows(
    rows: list[dict[str, Any]], data: st.DataObject, codec: Codec
) -> None:
    """The rows are a slice of a batch, in any order, in batches of at most 400 bytes."""
    first = data.draw(st.integers(0, len(rows) - 1))
    end = data.draw(st.integers(first + 1, len(rows)))
    chosen = data.draw(st.permutations(range(end - first)))
    moments = [
        {
            **row,
            "timestamp": row["timestamp"] and EPOCH + dt.timedelta(microseconds=row["timestamp"]),
        }
        for row in rows
    ]
    batch = normalize(batch_of(moments), None, 77).slice(first, end - first)
    encoded = Encoder(batch, codec).encode(np.array(chosen, np.int64), target(), 0)
    assert max(len(each.data) for each in encoded) <= 400
    found = [
        (record.key, record.value, record.headers, record.timestamp)
        for each in encoded
        for batch_read in read_batches(each.data)
        for record in batch_read.records()
    ]
    wanted = [
        (
            row["key"],
            row["value"],
            tuple((pair["key"].encode(), pair["value"]) for pair in row["headers"] or ()),
            row["timestamp"] // 1000 if row["timestamp"] else 77 if row["timestamp"] is None else 0,
        )
        for row in (rows[first + index] for index in chosen)
    ]
    assert found == wanted
    assert sum(each.record_count for each in encoded) == len(chosen)
    assert max(each.max_timestamp for each in encoded) == max(row[3] for row in wanted)
    plain = Encoder(batch, Codec.NONE)
    for index, size in enumerate(row_sizes(batch)):
        (alone,) = plain.encode(np.array([index], np.int64), target(), 0)
        assert len(alone.data) - 61 <= size


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_texts_and_large_arrays_are_taken(kind: pa.DataType) -> None:
    """Spark sends them with spark.sql.execution.arrow.useLargeVarTypes."""
    values = pa.array(["one", None, "drei"], kind)
    batch = pa.record_batch([values, values, values], names=["other", "value", "key"])
    rows = normalize(batch, "t", 5)
    assert rows.column("value").to_pylist() == [b"one", None, b"drei"]
    assert rows.column("key").to_pylist() == [b"one", None, b"drei"]
    assert rows.column("timestamp").to_pylist() == [5, 5, 5]


@pytest.mark.parametrize("microseconds", [-1, -1000, -1001, 0, 999, 1000])
def test_timestamps_are_rounded_down(microseconds: int) -> None:
    moment = EPOCH + dt.timedelta(microseconds=microseconds)
    rows = normalize(batch_of([{"value": b"", "timestamp": moment}]), "t", 5)
    assert rows.column("timestamp").to_pylist() == [microseconds // 1000]
