"""A control plane client for ordinary threads, such as those of Spark drivers and tasks.

A background thread with an event loop runs the clients of `lacuna.controlplane.client`, so that their views stay
current while Spark works. Each process has one such loop, which is never closed, because gRPC may deliver events to it
even after a client has ended.
"""

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from copy import copy
from functools import cache, partial
from typing import Any, Final, Self, TypeVar

from lacuna.controlplane.client import (
    AsOf,
    ControlPlace,
    ControlPlaneUnavailable,
    Cut,
    GrpcClient,
    SessionClient,
    SessionLimits,
    confirm,
    made_of,
    read_as_of,
    read_cut,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable
from lacuna.controlplane.shared.history import History
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.parts import MOST_AT_ONCE
from lacuna.controlplane.v1.cluster_pb2 import DescribeLeases, Topic, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from lacuna.logstore.segments import JournalEnd
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.hot import HotKey, hot_read_in, put_into, with_copies
from lacuna.pipeline.stores import shared_store

Result = TypeVar("Result")

#: Seconds after which an unresponsive control plane is an error.
_GIVE_UP_AFTER: Final = 10.0
#: The number of views to wait for at a time.
_VIEWS_AT_ONCE: Final = 500


class JobClient:
    """A client of the control plane, and a MetadataSource. Close it, or use it in a `with` statement.

    The constructor and every call raise ControlPlaneUnavailable if the control plane does not answer.
    """

    def __init__(self, place: ControlPlace, settings: SessionLimits | None = None) -> None:
        self._settings = settings or SessionLimits(give_up_after=_GIVE_UP_AFTER)
        self._loop = _shared_loop(os.getpid())
        self._is_open = True
        #: The hot segments of the last readable logs, many of which recur in the next batch of a stream.
        self._copied: frozenset[HotKey] = frozenset()
        self._client = self._run(self._open(place))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session. May be called more than once."""
        if self._is_open:
            self._run(self._client.close())
            self._is_open = False

    def call(self, command: Command) -> Reply:
        """Sends a command and returns its reply. Raises ControlPlaneUnavailable, CommandRefused."""
        return self._run(self._client.call(command))

    @property
    def cluster_id(self) -> str:
        return self._client.cluster.cluster_id

    @property
    def whose(self) -> str:
        return self._client.cluster.whose

    def journal_end(self) -> JournalEnd:
        """Returns the current end of the journal, for comparison with segments in the store."""
        leases = self.call(Command(describe_leases=DescribeLeases())).leases_described
        sequences = dict(zip(leases.lease_ids, leases.last_sequences, strict=True))
        return JournalEnd(self._client.journal_position, leases.next_lease_id, sequences)

    def topics(self) -> Mapping[str, Topic]:
        """Returns the topics by name, including every change that was acknowledged before the call."""
        return self._run(self._topics())

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """Returns copies of the partitions' views, made after the call began, but not all at the same moment."""
        return self._run(self._partition_logs(list(keys)))

    def readable_logs(
        self, keys: Iterable[PartitionKey], store_url: str, *, is_committed: bool = True
    ) -> list[PartitionLog]:
        """See MetadataSource. Pin the logs first. Also raises the same errors as `with_copies`."""
        logs: list[PartitionLog] = with_copies(
            self,
            put_into(shared_store(store_url)),
            partial(self.partition_logs, list(keys)),
            partial(hot_read_in, is_committed=is_committed),
            self._copied,
        )
        self._copied = frozenset(hot_read_in(logs, is_committed=is_committed))
        return logs

    def await_stable(self, reached: Mapping[PartitionKey, int], seconds: float) -> None:
        """Waits up to `seconds` for a last stable offset to exceed its value in `reached`, or for a deletion."""
        self._run(self._await_stable(reached, seconds))

    def as_of(self, keys: Sequence[PartitionKey], at_ms: int, *, is_cut: bool = False) -> AsOf:
        return self._run(read_as_of(self._client, keys, at_ms, is_cut=is_cut))

    def cut(self, keys: Sequence[PartitionKey]) -> Cut:
        if len(keys) > MOST_AT_ONCE:
            raise PipelineError(
                f"a cut covers up to {MOST_AT_ONCE} partitions, but these topics have {len(keys)}: specify fewer topics"
            )
        return self._run(read_cut(self._client, keys))

    def histories(self, keys: Iterable[PartitionKey]) -> list[History]:
        """Returns the histories of these partitions, in order. Raises StaleMetadataError if a topic was deleted."""
        wanted = [TopicPartition(topic_id=topic_id, partition=index) for topic_id, index in keys]
        reply = self.call(Command(read_histories=ReadPartitions(partitions=wanted)))
        found = reply.histories_read.histories
        for each, history in zip(wanted, found, strict=False):
            if not history.settled_ms:
                raise _deleted(each.topic_id)
        return [History.of(each) for each in found]

    async def _open(self, place: ControlPlace) -> SessionClient:
        tls = made_of(place.tls)
        client = GrpcClient(place.address, random.SystemRandom().random, self._settings, tls=tls)
        client.start()
        try:
            await client.cluster.ready()
        except BaseException:
            await client.close()
            raise
        return client

    async def _topics(self) -> dict[str, Topic]:
        await self._confirm()
        return dict(self._client.cluster.topics_by_name)

    async def _partition_logs(self, keys: list[PartitionKey]) -> list[PartitionLog]:
        await self._confirm()
        logs: list[PartitionLog] = []
        for start in range(0, len(keys), _VIEWS_AT_ONCE):
            some = keys[start : start + _VIEWS_AT_ONCE]
            views = [self._client.partition(*key) for key in some]
            await asyncio.gather(*(view.ready() for view in views))
            logs += [self._log(key) for key in some]
        return logs

    async def _await_stable(self, reached: Mapping[PartitionKey, int], seconds: float) -> None:
        views = {key: self._client.partition(*key) for key in reached}
        changed = asyncio.Event()
        for view in views.values():
            view.add_listener(changed.set)
        try:
            async with asyncio.timeout(seconds):
                while not any(
                    view.is_deleted or view.last_stable_offset > reached[key]
                    for key, view in views.items()
                ):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return
        finally:
            for view in views.values():
                view.remove_listener(changed.set)

    async def _confirm(self) -> None:
        """Waits until the views contain every change that was acknowledged before this call.

        If the session is lost in the meantime, the next one starts from the current state, so nothing is missed.
        """
        with contextlib.suppress(ControlPlaneUnavailable):
            await confirm(self._client)
        await self._client.cluster.ready()

    def _log(self, key: PartitionKey) -> PartitionLog:
        view = self._client.partition(*key)
        topic = self._client.cluster.topics_by_id.get(view.topic_id)
        if topic is None or view.is_deleted:
            raise _deleted(view.topic_id)
        return PartitionLog(
            topic=topic.name,
            topic_id=view.topic_id,
            partition=view.partition,
            version=view.version,
            log_start_offset=view.log_start_offset,
            last_stable_offset=view.last_stable_offset,
            high_watermark=view.high_watermark,
            extents=_copy_extents(view.extents),
            dead=_copy_dead(view.dead),
            vacated_to=view.vacated_to,
        )

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if not self._is_open:
            work.close()
            raise ControlPlaneUnavailable("this control plane client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@cache
def _shared_loop(process_id: int) -> asyncio.AbstractEventLoop:
    """Returns the event loop of this process. A forked process needs a new loop, since it does not inherit threads."""
    loop = asyncio.new_event_loop()
    name = f"control-plane-{process_id}"
    threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
    return loop


def _deleted(topic_id: bytes) -> StaleMetadataError:
    return StaleMetadataError(
        f"the topic with id {show_id(topic_id)} was deleted while the job ran: start the job again"
    )


def check(code: int, what: str) -> None:
    """Raises PipelineError for an error code (StaleMetadataError for a stale plan). `what` says what was attempted."""
    if code == ErrorCode.NONE:
        return
    if code == ErrorCode.PLAN_STALE:
        raise StaleMetadataError(f"{what}: the log has changed since the plan was made; plan again")
    raise PipelineError(f"{what}: the control plane returned {_name_of(code)}")


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _copy_extents(extents: ExtentTable) -> ExtentTable:
    found = ExtentTable()
    for name in COLUMNS:
        setattr(found, name, copy(getattr(extents, name)))
    return found


def _copy_dead(dead: DeadRanges) -> DeadRanges:
    found = DeadRanges()
    found.firsts, found.ends = copy(dead.firsts), copy(dead.ends)
    return found
