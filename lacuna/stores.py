"""From what an operator names to an object store that can be used."""

import asyncio
from pathlib import Path
from urllib.parse import quote, urlencode

from controlplane.client import ControlClient
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions
from logstore.objects import BucketMissingError, ObjectStore, StoreMisconfiguredError, open_store
from logstore.segments import claim_store, read_marker
from logstore.segments.marker import check_marker

_PARTITIONS_A_CALL = 1000


def bucket_url(bucket: str, endpoint: str | None) -> str:
    """The URL of BUCKET or BUCKET/PREFIX at an S3 service."""
    query = f"?{urlencode({'endpoint': endpoint})}" if endpoint else ""
    return f"s3://{quote(bucket.removeprefix('s3://'))}{query}"


def folder_url(folder: Path) -> str:
    """The URL of a folder."""
    return f"file://{quote(str(folder.resolve()))}"


def open_checked(url: str, *, create_bucket: bool = False) -> ObjectStore:
    """Opens a store and makes sure that it can be used. Raises ObjectStoreError with what to do."""
    store = open_store(url)
    make = getattr(store, "create_bucket", None)
    try:
        if create_bucket:
            if make is None:
                raise StoreMisconfiguredError(f"{url} is no bucket: leave --create-bucket out")
            make()
        store.check()
    except BucketMissingError as error:
        store.close()
        raise StoreMisconfiguredError(f"{error} (--create-bucket creates it)") from error
    except BaseException:
        store.close()
        raise
    return store


async def claim(store: ObjectStore, control: ControlClient) -> None:
    """Makes the store this cluster's, or makes sure that it is.

    A store that nobody has claimed yet cannot hold the records that the control plane already speaks of.
    Raises ForeignStoreError, ObjectStoreError, ControlPlaneUnavailable.
    """
    await control.cluster.ready()
    cluster_id = control.cluster.cluster_id
    found = await asyncio.to_thread(read_marker, store)
    if found is None and await _has_records(control):
        check_marker(None, cluster_id)
    await asyncio.to_thread(claim_store, store, cluster_id)


async def _has_records(control: ControlClient) -> bool:
    partitions = [
        TopicPartition(topic_id=topic.topic_id, partition=index)
        for topic in control.cluster.topics_by_id.values()
        for index in range(topic.partition_count)
    ]
    for start in range(0, len(partitions), _PARTITIONS_A_CALL):
        asked = ReadPartitions(partitions=partitions[start : start + _PARTITIONS_A_CALL])
        read = await control.call(Command(read_partitions=asked))
        if any(
            state.high_watermark > state.log_start_offset
            for state in read.partitions_read.partitions
        ):
            return True
    return False
