"""Opens the store that the operator's options specify, and claims it for the cluster."""

import asyncio
import logging

from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.journal.journal import REMEDY
from lacuna.controlplane.v1.cluster_pb2 import DescribeLeases
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.logstore.objects import (
    BucketMissingError,
    ObjectStore,
    StoreMisconfiguredError,
    StoreUnavailableError,
    open_store,
)
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.segments import (
    JournalEnd,
    LaterSegment,
    claim_store,
    find_later,
    read_marker,
)
from lacuna.logstore.segments.marker import check_marker
from lacuna.operating import questions

log = logging.getLogger("lacuna")

_PAUSE_SECONDS = 1.0


class StoreAheadError(UserError):
    """The store contains a segment written after the journal's end, so the journal may lack acknowledged records."""

    def __init__(self, end: JournalEnd, later: LaterSegment) -> None:
        reached = f"after position {later.journal_position}" if later.journal_position else "later"
        super().__init__(
            f"the journal ends at position {end.position}, but segment {later.segment_id} ({later.key}) was "
            f"written {reached}: the journal was damaged, cut short, restored from an older copy, or copied elsewhere, "
            f"and the cluster continued there. {REMEDY}"
        )


def open_checked(url: str, *, create_bucket: bool = False) -> ObjectStore:
    """Opens the store at a URL and checks it, creating its bucket first if requested. Raises ObjectStoreError."""
    store = open_store(url)
    inner = store.inner if isinstance(store, EncryptedStore) else store
    make = getattr(inner, "create_bucket", None)
    try:
        if create_bucket:
            if make is None:
                raise StoreMisconfiguredError(f"{url} is not a bucket: omit --create-bucket")
            make()
        store.check()
    except BucketMissingError as error:
        store.close()
        raise StoreMisconfiguredError(f"{error} (--create-bucket creates it)") from error
    except BaseException:
        store.close()
        raise
    return store


async def open_when_there(url: str, *, create_bucket: bool = False) -> ObjectStore:
    """Opens a store with `open_checked` once it answers. Raises ObjectStoreError if the operator must act."""
    has_warned = False
    while True:
        try:
            return await asyncio.to_thread(open_checked, url, create_bucket=create_bucket)
        except StoreUnavailableError as error:
            if not has_warned:
                has_warned = True
                log.warning("%s; trying again", error)
        await asyncio.sleep(_PAUSE_SECONDS)


async def claim(store: ObjectStore, control: ControlClient) -> None:
    """Claims the store for this cluster, or checks that it already belongs to it.

    Raises ForeignStoreError if the store belongs to another cluster, or is unclaimed although the control plane refers
    to records. Raises StoreAheadError if it contains a segment written after the journal's end. Also raises
    ObjectStoreError, ControlPlaneUnavailable.
    """
    await control.cluster.ready()
    cluster_id = control.cluster.cluster_id
    marker = await asyncio.to_thread(read_marker, store)
    if marker is None and await _has_records(control):
        check_marker(None, cluster_id)
    await asyncio.to_thread(claim_store, store, cluster_id)
    if marker is not None:
        await _check_reached(store, control)


async def _check_reached(store: ObjectStore, control: ControlClient) -> None:
    cluster_id = control.cluster.cluster_id
    end = await _journal_end(control)
    later = await asyncio.to_thread(find_later, store, cluster_id, end)
    if later is None:
        return
    # Other agents may have written in the meantime, which is not a loss.
    now = await _journal_end(control)
    if now.is_before(later):
        raise StoreAheadError(now, later)


async def _journal_end(control: ControlClient) -> JournalEnd:
    reply = await control.call(Command(describe_leases=DescribeLeases()))
    leases = reply.leases_described
    sequences = dict(zip(leases.lease_ids, leases.last_sequences, strict=True))
    return JournalEnd(control.journal_position, leases.next_lease_id, sequences)


async def _has_records(control: ControlClient) -> bool:
    keys = questions.partitions_of(control.cluster.topics_by_id.values())
    async for states in questions.read_in_parts(control, keys):
        if any(state.high_watermark > state.log_start_offset for state in states):
            return True
    return False
