"""Copies hot segments to the bucket, where tasks read them like all other segments (adr/0071).

The bytes of a hot segment stay in the control plane's journal until merging moves them out, soon after their commit.
Tasks do not contact the control plane, so the driver copies the segments that the logs refer to into the bucket
unchanged, each under its own key. If merging moves some of them out in the meantime, the driver reads the logs again.
Collection deletes the copies together with the segments, which the job's pin protects.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import ReadHot, SegmentId
from lacuna.logstore.objects import ObjectStore, ObjectStoreError, StoreMisconfiguredError
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.store import ObjectExistsError
from lacuna.logstore.segments.hot import HOT, is_hot, show_segment
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.extents import PartitionLog

log = logging.getLogger("lacuna.pipeline")

#: (lease id, sequence)
HotKey: TypeAlias = tuple[int, int]
Plan = TypeVar("Plan")

#: The number of segments in a request to the control plane, and of concurrent PUTs. Up to twice as many segments are in
#: memory.
_READ_AT_ONCE: Final = 128
_PUTS_AT_ONCE: Final = 32
#: How many times the logs are read again if merging is faster.
_TRIES: Final = 10


class Caller(Protocol):
    @property
    def cluster_id(self) -> str: ...

    def call(self, command: Command) -> Reply: ...


class HotCopy(NamedTuple):
    """The object for a hot segment, in the same form as in the journal: encrypted if the store encrypts."""

    key: str
    data: bytes


def with_copies(
    control: Caller,
    put: Callable[[HotCopy], None],
    read: Callable[[], Plan],
    hot_of: Callable[[Plan], Iterable[HotKey]],
    known: Collection[HotKey] = (),
) -> Plan:
    """Calls `read`, passes the hot segments that `hot_of` finds in the result to `put`, in threads, and returns the
    result.

    Segments in `known` are skipped. So are damaged or lost segments, which their readers will report. Raises
    StaleMetadataError if merging keeps moving segments before they are copied, and any errors from `read`, `put` and
    the control plane.
    """
    copied = set(known)
    for _ in range(_TRIES):
        plan = read()
        missing = sorted(set(hot_of(plan)) - copied)
        copied.update(missing)
        if _copy(control, put, missing):
            return plan
    raise StaleMetadataError(
        "merging moved records out of the control plane's journal faster than this job could read them there: start "
        "the job again"
    )


def hot_in(extents: ExtentTable, start: int, stop: int) -> Iterator[HotKey]:
    """Yields the hot segments of the extents with indexes [start, stop)."""
    lease_ids = extents.lease_ids[start:stop]
    if lease_ids and max(lease_ids) >= HOT:
        for index, lease_id in enumerate(lease_ids, start):
            if is_hot(lease_id):
                yield lease_id, extents.sequences[index]


def hot_read_in(logs: Iterable[PartitionLog], *, is_committed: bool) -> Iterator[HotKey]:
    """Yields the hot segments that readers of these logs need; `is_committed` leaves out those of aborted records."""
    for each in logs:
        end = each.end_offset(is_committed=is_committed)
        for start, stop in each.slices(each.log_start_offset, end, is_committed=is_committed):
            yield from hot_in(each.extents, start, stop)


def hot_named_in(logs: Iterable[PartitionLog]) -> Iterator[HotKey]:
    for each in logs:
        yield from hot_in(each.extents, 0, len(each.extents))


def beneath_encryption(store: ObjectStore) -> ObjectStore:
    """Returns the store beneath the encryption, for bytes from the journal, which are already encrypted."""
    return store.inner if isinstance(store, EncryptedStore) else store


def put_into(bucket: ObjectStore) -> Callable[[HotCopy], None]:
    """Returns a function that puts a copy into the bucket unless one exists. It raises PipelineError."""
    bare = beneath_encryption(bucket)

    def put(copy: HotCopy) -> None:
        try:
            with suppress(ObjectExistsError):  # from another job
                bare.put(copy.key, [copy.data])
        except StoreMisconfiguredError as error:
            raise PipelineError(
                f"the newest records are still in the control plane's journal, and this job could not copy them to the "
                f"bucket to read them there: {error}. Allow the job to put objects, or start the job again once "
                "merging has moved these records to the bucket (merge.min.age.ms)"
            ) from error
        except ObjectStoreError as error:
            raise PipelineError(f"object {copy.key!r} could not be written: {error}") from error

    return put


def _copy(control: Caller, put: Callable[[HotCopy], None], keys: Sequence[HotKey]) -> bool:
    """Passes segments to `put`, several at a time. Returns False if some have left the journal."""
    if not keys:
        return True
    is_complete = True
    puts: deque[Future[None]] = deque()
    with ThreadPoolExecutor(_PUTS_AT_ONCE, thread_name_prefix="hot") as executor:
        for start in range(0, len(keys), _READ_AT_ONCE):
            some = keys[start : start + _READ_AT_ONCE]
            segments = [SegmentId(lease_id=lease_id, sequence=number) for lease_id, number in some]
            answers = control.call(Command(read_hot=ReadHot(segments=segments))).hot_read.segments
            for key, answer in zip(some, answers, strict=True):
                if answer.is_damaged:
                    log.error("the hot segment %s is damaged in the journal", show_segment(*key))
                elif answer.is_gone:
                    is_complete = False
                else:
                    copy = HotCopy(key_in_lease(control.cluster_id, *key), answer.data)
                    puts.append(executor.submit(put, copy))
            while len(puts) > _READ_AT_ONCE:
                puts.popleft().result()
        for each in puts:
            each.result()
    return is_complete
