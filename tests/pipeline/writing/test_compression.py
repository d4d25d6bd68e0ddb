"""Tests compression.type of a topic: the sink's records are stored like a producer's."""

import os

import pytest

from lacuna.agent.produce.recompress import compression_of
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.compression import compress
from lacuna.logstore.records.layout import HEADER_SIZE, Codec
from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.datasource.writing.task import write_task
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster

from .tasks import batch_of, commit, options

VALUES = [b"a value that repeats itself %d" % number for number in range(2000)]


def stored(cluster: Cluster, topic: str) -> bytes:
    """Return the stored batches of partition 0."""
    location = find_cluster(data=str(cluster.data))
    with ControlPlane(location.require_control()) as control:
        key = (control.topics()[topic].topic_id, 0)
        (log,) = control.partition_logs([key])
        store = shared_store(location.store)
        pieces = log.pieces(0, log.high_watermark)
        return b"".join(
            bytes(store.get(each.key(control.cluster_id), each.position, each.size))
            for each in pieces
        )


@pytest.mark.parametrize(
    ("configs", "given", "codec"),
    [
        ({}, {}, Codec.LZ4),
        ({"compression.type": "producer"}, {"compression": "snappy"}, Codec.SNAPPY),
        ({"compression.type": "uncompressed"}, {}, Codec.NONE),
        ({"compression.type": "gzip", "compression.gzip.level": "1"}, {}, Codec.GZIP),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, {}, Codec.GZIP),
        ({"compression.type": "snappy"}, {"compression": "none"}, Codec.SNAPPY),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, {}, Codec.LZ4),
        ({"compression.type": "zstd"}, {"compression": "gzip"}, Codec.ZSTD),
        ({"compression.type": "zstd", "compression.zstd.level": "-5"}, {}, Codec.ZSTD),
    ],
)
def test_s11_the_topics_codec_wins(
    cluster: Cluster, configs: dict[str, str], given: dict[str, str], codec: Codec
) -> None:
    """This includes its level: an agent that recompressed the batch would write the same bytes."""
    topic = cluster.create_topic(f"codec-{os.urandom(4).hex()}", 1, configs)
    task = write_task(
        options(cluster, topic=topic, **given), [batch_of([{"value": value} for value in VALUES])]
    )
    assert commit(cluster, [task], transactional_id=topic)
    batches = list(read_batches(stored(cluster, topic)))
    assert [record.value for batch in batches for record in batch.records()] == VALUES
    assert {batch.header.codec for batch in batches} == {codec}
    wanted = compression_of(configs)
    level = None if wanted is None else wanted.level
    for batch in batches:
        assert batch.data[HEADER_SIZE:] == compress(codec, batch.section(), level)


def test_topics_of_one_write_have_their_own(cluster: Cluster) -> None:
    codecs = {"one-zstd": "zstd", "one-gzip": "gzip", "one-producer": "producer"}
    for topic, name in codecs.items():
        cluster.create_topic(topic, 1, {"compression.type": name})
    rows = [{"value": VALUES[number], "topic": topic} for number in range(9) for topic in codecs]
    task = write_task(options(cluster, compression="snappy"), [batch_of(rows)])
    assert commit(cluster, [task], transactional_id="one")
    found = {
        topic: {batch.header.codec for batch in read_batches(stored(cluster, topic))}
        for topic in codecs
    }
    assert found == {
        "one-zstd": {Codec.ZSTD},
        "one-gzip": {Codec.GZIP},
        "one-producer": {Codec.SNAPPY},
    }
