"""Removes one safeguard of the product at a time, to show that the simulation detects each removal.

python -m tests.simulation --safeguards          the number of seeds until each removal is detected
python -m tests.simulation --safeguards --only "lease fence"

`leader_safeguards.py` has those of several control planes, and `hot.py` those of hot segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from math import inf
from typing import Any, Final
from unittest import mock

from lacuna.agent.fetch import planner
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.housekeeping import cleaning
from lacuna.agent.housekeeping.collecting import Collector
from lacuna.agent.housekeeping.merging import Merger
from lacuna.agent.housekeeping.set_aside import SetAside
from lacuna.agent.produce import flush
from lacuna.agent.produce.flight import Flight
from lacuna.agent.trust import Trust
from lacuna.controlplane import clock, machine
from lacuna.controlplane.client import session
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.clock import Witnesses
from lacuna.controlplane.delivering import Deliveries
from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.shared.batches import FLAG_ADDS_PARTITION
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log import choosing, reads
from lacuna.controlplane.shared.log.pieces import all_pieces
from lacuna.controlplane.state.groups.consumer.live import LiveConsumerGroup
from lacuna.controlplane.state.groups.offsets import Offsets
from lacuna.controlplane.state.groups.streams import LiveStreamsGroup
from lacuna.controlplane.state.past_cuts import PastCuts
from lacuna.controlplane.state.segments import SegmentTable
from lacuna.controlplane.state.state import Lease, State
from lacuna.controlplane.state.transactional import TransactionalId
from lacuna.controlplane.state.unsettled import Unsettled
from lacuna.controlplane.v1.cluster_pb2 import Outcomes
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import TxnOffsetCommit
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LogStartsMoved, TransactionEnded
from lacuna.controlplane.v1.log_pb2 import (
    CommitSegment,
    CompactionRange,
    PartitionDelta,
    SegmentCommitted,
    SwapExtents,
)
from lacuna.controlplane.verbs import (
    agents,
    commits,
    compaction,
    dead_letters,
    housekeeping,
    importing,
    merging,
    outcomes,
    swapping,
    topics,
    transactions,
)
from lacuna.controlplane.verbs.groups import (
    committing,
    share_records,
    streams_members,
    streams_tasks,
)
from lacuna.controlplane.verbs.groups.consumer import reconcile
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.importing import target
from lacuna.logstore.objects.store import ObjectStoreError
from lacuna.logstore.records.pieces import walk_pieces
from tests.forms import interpreted
from tests.simulation import world
from tests.simulation.hot import HOT_SAFEGUARDS, no_plan_digest
from tests.simulation.journal import SimulatedJournal
from tests.simulation.leader_safeguards import LEADER_SAFEGUARDS
from tests.simulation.store import SimulatedStore

Remove = Callable[[], AbstractContextManager[Any]]
patch = mock.patch.object

#: Nothing in a compiled module can be replaced, so the safeguards in this one are taken from its interpreted form.
SLICES: Final = "lacuna.controlplane.verbs.slices"


@contextmanager
def _all(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


def _early_replies() -> AbstractContextManager[Any]:
    """Replies and deltas are sent before the journal has their records."""

    return patch(Deliveries, "_is_due", lambda *_: True)


def _unordered_flushes() -> AbstractContextManager[Any]:
    """A flush commits without waiting for the previous one."""
    return patch(flush, "Flight", lambda batches, _previous, *ends: Flight(batches, None, *ends))


def _no_lease_fence() -> AbstractContextManager[Any]:
    """A commit under an ended lease is accepted."""

    def with_lease(state: State, lease_id: int) -> None:
        if 0 < lease_id < state.next_lease_id:
            state.leases.setdefault(lease_id, Lease(lease_id, 0))

    def commit(turn: Turn, command: CommitSegment) -> Reply:
        with_lease(turn.state, command.segment.lease_id)
        return commits.commit_segment(turn, command)

    def replay(state: State, record: Any, now_ms: int) -> None:
        with_lease(state, record.segment.lease_id)
        commits.replay_segment_recorded(state, record, now_ms)

    return _all(
        mock.patch.dict(machine.VERBS, commit_segment=Verb(commit)),
        mock.patch.dict(machine.REPLAYS, segment_recorded=replay),
    )


def _no_segment_idempotence() -> AbstractContextManager[Any]:
    """A resent commit is decided again."""
    add = SegmentTable.add

    def commit(turn: Turn, command: CommitSegment) -> Reply:
        if command.segment.lease_id not in turn.state.leases:
            return Reply(segment_committed=SegmentCommitted(error_code=ErrorCode.LEASE_EXPIRED))
        return commits._decide(turn, command)

    def add_or_not(self: SegmentTable, key: Any, *rest: Any) -> None:
        if key not in self:
            add(self, key, *rest)

    return _all(
        mock.patch.dict(machine.VERBS, commit_segment=Verb(commit)),
        patch(SegmentTable, "add", add_or_not),
    )


def _no_sequence_check() -> AbstractContextManager[Any]:
    """A batch is accepted with any sequence."""
    slices = interpreted(SLICES)
    return _all(
        patch(slices, "_check_sequence", lambda *_: 0),
        patch(commits, "decide_slices", slices.decide_slices),
    )


def _no_epoch_check() -> AbstractContextManager[Any]:
    """A batch with an older epoch is treated as one with the newest."""
    slices = interpreted(SLICES)
    check = slices._Draft.check_transaction

    def unfenced(self: Any, batch: Any) -> Any:
        given = batch.producer_epoch, batch.flags
        found = self.producers.get(batch.producer_id)
        batch.producer_epoch = -1 if found is None else found.producer_epoch
        batch.flags |= FLAG_ADDS_PARTITION
        try:
            return check(self, batch)
        finally:
            batch.producer_epoch, batch.flags = given

    return _all(
        patch(slices._Draft, "check_transaction", unfenced),
        patch(slices, "_check_sequence", lambda *_: 0),
        patch(commits, "decide_slices", slices.decide_slices),
    )


def _blind_views() -> AbstractContextManager[Any]:
    """A view applies the deltas of a new session, even if it missed some."""
    apply = PartitionView.apply

    def blind(self: PartitionView, delta: PartitionDelta) -> bool:
        if self.version < 0:
            return apply(self, delta)
        if delta.is_snapshot:
            self.version, self.is_current = delta.version, True
            return True
        delta.from_version = self.version
        return apply(self, delta)

    return _all(
        patch(PartitionView, "apply", blind), patch(Subscriptions, "interrupt", lambda _self: None)
    )


def _after_apply(change: Callable[[PartitionView], None]) -> AbstractContextManager[Any]:
    apply = PartitionView.apply

    def changed(self: PartitionView, delta: PartitionDelta) -> bool:
        done = apply(self, delta)
        change(self)
        return done

    return patch(PartitionView, "apply", changed)


def _no_last_stable_offset() -> AbstractContextManager[Any]:
    """A read_committed consumer reads up to the high watermark."""

    def change(view: PartitionView) -> None:
        view.last_stable_offset = view.high_watermark

    return _after_apply(change)


def _aborted_shown() -> AbstractContextManager[Any]:
    """No part of an aborted transaction is skipped."""

    def change(view: PartitionView) -> None:
        view.dead = DeadRanges()

    return _after_apply(change)


def _unchecked_reads() -> AbstractContextManager[Any]:
    """The checksums of reads are not verified."""

    def walk(*given: Any) -> Any:
        return walk_pieces(*given[:-1], False)  # type: ignore[call-arg]

    return patch(reads, "walk_pieces", walk)


def _commit_without_put() -> AbstractContextManager[Any]:
    """A flush commits its segment whether or not it was written."""
    put = SimulatedStore.put

    def hopeful(self: SimulatedStore, key: str, parts: Any) -> None:
        try:
            put(self, key, parts)
        except ObjectStoreError:
            return

    return patch(SimulatedStore, "put", hopeful)


def _no_retry_answer() -> AbstractContextManager[Any]:
    """A resent EndTxn is decided again."""
    return patch(outcomes, "_DONE", {True: None, False: None})


def _trusting(since_matters: bool) -> AbstractContextManager[Any]:
    holds = Trust.holds

    def trusts(self: Trust, since: float = float("-inf")) -> bool:
        if not since_matters:
            return holds(self)
        return self._as_of >= since

    return patch(Trust, "holds", trusts)


async def _unasked(*_: Any) -> None:
    """Skip the request."""


def _forgotten_windows() -> AbstractContextManager[Any]:
    """A snapshot omits the sequences of producers."""
    restore = machine.restore

    def forget(parts: Iterable[bytes]) -> State:
        state = restore(parts)
        for each in state.partitions.values():
            if not each.ongoing:
                state.windows.forget(each)
        return state

    return patch(machine, "restore", forget)


def _no_timeouts() -> AbstractContextManager[Any]:
    """Transactions never time out."""
    return patch(outcomes, "tick_transactions", lambda _: None)


def _no_generation_check() -> AbstractContextManager[Any]:
    """Any former member of a group may commit its offsets."""

    def anybody(*_: Any) -> ErrorCode:
        return ErrorCode.NONE

    return _all(
        patch(committing, "_find_generation_error", anybody),
        patch(committing, "_find_epoch_error", anybody),
    )


def _unrecorded_offsets() -> AbstractContextManager[Any]:
    """The offsets of a transaction are acknowledged but not kept."""

    def commit(_: Turn, command: TxnOffsetCommit) -> Reply:
        return Reply(offsets_committed=Outcomes(error_codes=[0] * len(command.offsets)))

    return patch(transactions, "commit_in_transaction", commit)


def _offsets_of_aborted() -> AbstractContextManager[Any]:
    """The offsets of an aborted transaction take effect."""
    end = Offsets.end_transaction
    return patch(
        Offsets, "end_transaction", lambda self, producer_id, _: end(self, producer_id, True)
    )


def _no_pins() -> AbstractContextManager[Any]:
    """A collection removes objects that a job has pinned."""
    collectable = SegmentTable.collectable

    def unpinned(self: SegmentTable, *given: Any) -> Any:
        with patch(self, "pins", {}):
            return collectable(self, *given)

    return patch(SegmentTable, "collectable", unpinned)


def _unmoved_log_starts() -> AbstractContextManager[Any]:
    """DeleteRecords is acknowledged, but nothing is deleted."""
    return patch(
        housekeeping,
        "log_starts_moved",
        lambda _: JournalRecord(log_starts_moved=LogStartsMoved()),
    )


def _topic_ids_by_name() -> AbstractContextManager[Any]:
    """A recreated topic has the id of the previous one."""
    new_topic = topics._new_topic

    def same(*given: Any) -> Any:
        topic = new_topic(*given)
        topic.topic_id = topic.name.encode().rjust(16, b"-")
        return topic

    return patch(topics, "_new_topic", same)


def _unfenced_aborts() -> AbstractContextManager[Any]:
    """An external abort or a timeout does not change the producer's epoch."""

    def abort(turn: Turn, found: TransactionalId, _: int) -> None:
        record = TransactionEnded(
            producer_id=found.producer_id,
            next_producer_id=found.producer_id,
            next_producer_epoch=found.producer_epoch,
            is_by_coordinator=True,
        )
        turn.journal(JournalRecord(transaction_ended=record))

    return patch(outcomes, "_abort", abort)


def _swaps_without_lease() -> AbstractContextManager[Any]:
    """A swap under an ended lease is accepted, so that its objects may be swept."""

    def swap(turn: Turn, command: SwapExtents) -> Reply:
        ids = {each.segment.lease_id for each in command.segments}
        with patch(turn.state, "leases", {**dict.fromkeys(ids), **turn.state.leases}):
            return swapping.swap_extents(turn, command)

    return mock.patch.dict(machine.VERBS, swap_extents=Verb(swap))


def _plans_without_dead_ranges() -> AbstractContextManager[Any]:
    """A compaction does not learn which records were aborted."""
    planned = compaction.range_of

    def undead(*given: Any, **named: Any) -> CompactionRange:
        found = planned(*given, **named)
        found.dead = b""
        return found

    return patch(compaction, "range_of", undead)


async def _sweep_nothing(*_: Any) -> int:
    return 0


def _swept_once() -> AbstractContextManager[Any]:
    """Objects written under a lease after its sweep are never searched."""

    def unused(*_: Any) -> None:
        """Return no lease."""

    return _all(*(patch(module, "used_late", unused) for module in (agents, commits, swapping)))


def _unacknowledged_revocations() -> AbstractContextManager[Any]:
    """Revoked partitions go to other members before the member confirms."""
    return patch(reconcile, "_owns_any", lambda *_: False)


def _undeleted_views() -> AbstractContextManager[Any]:
    """A fetch answers for a topic that was deleted during the read."""
    answer = FetchService._answer

    def undeleted(self: FetchService, interest: Any, *rest: Any) -> Any:
        view = interest.view
        if view is None or not view.is_deleted:
            return answer(self, interest, *rest)
        with patch(view, "is_deleted", False):
            return answer(self, interest, *rest)

    return patch(FetchService, "_answer", undeleted)


def _everything_again() -> AbstractContextManager[Any]:
    """A client resends everything that was not answered."""
    return patch(session, "may_be_repeated", lambda _: True)


def _believed_at_once() -> AbstractContextManager[Any]:
    """A clock that is far ahead is believed, whatever other clocks show."""
    return _all(patch(Witnesses, "agreed", lambda *_: inf), patch(clock, "_STANDS_MS", 0))


def _whole_plans() -> AbstractContextManager[Any]:
    """A merge is abandoned because of one object that cannot be read."""
    merge = Merger._merge

    def whole(self: Merger, partitions: Any) -> Any:
        merged, bytes_read, reasons = merge(self, partitions)
        for error in reasons.values():
            raise error
        return merged, bytes_read, reasons

    return patch(Merger, "_merge", whole)


def _aborted_supersede() -> AbstractContextManager[Any]:
    """A pass also notes the keys of aborted records."""

    def pieces(range_: CompactionRange) -> Any:
        table = ExtentTable.from_columns(range_.extents)
        return table, [*all_pieces(table)]

    return patch(cleaning, "live_pieces", pieces)


def _without_outcomes() -> AbstractContextManager[Any]:
    """Importers do not report what was aborted in the source."""
    return patch(target, "FLAG_ABORTED_BEFORE", 0)


def _merged_like_others() -> AbstractContextManager[Any]:
    """Merges remove the aborted records of mirrors as they do in other topics."""

    find: Any = choosing.find_run

    def found(*arguments: Any) -> Any:
        *limits, _keeps_dead = arguments
        return find(*limits, False)

    return patch(merging, "find_run", found)


#: Name → what takes it away. The names are those of docs/simulation.md.
SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "durable replies": _early_replies,
    "order of flushes": _unordered_flushes,
    "order of commits": lambda: patch(commits, "_is_in_turn", lambda *_: True),
    "commit after the PUT": _commit_without_put,
    "lease fence": _no_lease_fence,
    "lease margin": partial(_trusting, since_matters=True),
    "confirmation after a pause": partial(_trusting, since_matters=False),
    "confirming read": lambda: patch(planner.Planner, "confirm", _unasked),
    "grace period of collection": lambda: patch(world, "GRACE_MS", 0),
    "sweep of ended leases": lambda: patch(Collector, "_sweep", _sweep_nothing),
    "segment idempotence": _no_segment_idempotence,
    "sequence check": _no_sequence_check,
    "epoch check": _no_epoch_check,
    "version check of views": _blind_views,
    "digest check of swaps": no_plan_digest,
    "syncs of the store": lambda: patch(SimulatedStore, "is_synced", False),
    "syncs of the journal": lambda: patch(SimulatedJournal, "is_synced", False),
    "same answer to a retried EndTxn": _no_retry_answer,
    "last stable offset": _no_last_stable_offset,
    "unsettled transactions in cuts": lambda: patch(Unsettled, "add", lambda *_: None),
    "cuts of past times": lambda: patch(PastCuts, "note", lambda *_: None),
    "skipping aborted records": _aborted_shown,
    "checksum checks of reads": _unchecked_reads,
    "read pins": _no_pins,
    "log start after DeleteRecords": _unmoved_log_starts,
    "lease check of swaps": _swaps_without_lease,
    "new ids of recreated topics": _topic_ids_by_name,
    "fencing by aborts": _unfenced_aborts,
    "dead ranges in compaction plans": _plans_without_dead_ranges,
    "idempotence windows in snapshots": _forgotten_windows,
    "transaction timeouts": _no_timeouts,
    "acknowledged revocations": _unacknowledged_revocations,
    "generation check of commits": _no_generation_check,
    "offsets in transactions": _unrecorded_offsets,
    "dropping offsets of aborted transactions": _offsets_of_aborted,
    "second sweep of leases": _swept_once,
    "errors for deleted topics": _undeleted_views,
    "commands that must not be repeated": _everything_again,
    "agreement of clocks": _believed_at_once,
    "merges that skip an object": _whole_plans,
    "setting unreadable objects aside": lambda: patch(SetAside, "at", lambda *_: []),
    "second attempts": lambda: patch(SimulatedStore, "makes_second_attempts", False),
    "keeping aborted records out of passes": _aborted_supersede,
    "tombstones above damage": lambda: patch(cleaning._Pass, "is_whole", True),
    "patience with rejected credentials": lambda: patch(
        Node, "_is_refused_for_good", lambda _: True
    ),
    "late ticks": lambda: patch(Runtime, "_note_pause", lambda _: False),
}

#: The same, found by histories of a group whose members come and go.
MEMBER_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    # A heartbeat that was repeated is answered as if its client had the first answer.
    "assignments told again": lambda: patch(LiveConsumerGroup, "has_heard", lambda *_: True),
}

#: The same, found by histories of a share group.
SHARE_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "bound of shared records": lambda: patch(
        share_records, "_bound", lambda _, partition: partition.high_watermark
    ),
    # Letters of records that are in the queue already are appended again.
    "letters of records that wait": lambda: patch(dead_letters, "_waits", lambda *_: True),
}

#: The same, found by histories of a streams group.
STREAMS_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "tasks of other members": lambda: patch(streams_tasks._Step, "_is_held", lambda *_: False),
    "acknowledged tasks": lambda: patch(streams_tasks, "_has_any", lambda *_: False),
    "tasks told again": lambda: patch(LiveStreamsGroup, "has_heard", lambda *_: True),
    "epochs of members": lambda: patch(streams_members._Beat, "_check_epoch", lambda *_: None),
}

#: The same, found by histories of importers that are killed.
IMPORT_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "end of a mirror": lambda: patch(importing, "_judge", lambda *_: ErrorCode.NONE),
    "outcomes of a mirror": _without_outcomes,
    "aborted records of a mirror": _merged_like_others,
}

#: All of them, and what form of history finds them.
ALL: Final = {
    **{name: (remove, world.WHOLE) for name, remove in SAFEGUARDS.items()},
    **{name: (remove, world.ROAMING) for name, remove in MEMBER_SAFEGUARDS.items()},
    **{name: (remove, world.SHARING) for name, remove in SHARE_SAFEGUARDS.items()},
    **{name: (remove, world.STREAMING) for name, remove in STREAMS_SAFEGUARDS.items()},
    **{name: (remove, world.IMPORTING) for name, remove in IMPORT_SAFEGUARDS.items()},
    **{name: (remove, world.TWO_LEADERS) for name, remove in LEADER_SAFEGUARDS.items()},
    **{name: (remove, world.TWO_LEADERS) for name, remove in HOT_SAFEGUARDS.items()},
}


def seeds_until_found(name: str, most: int, first: int = 1) -> tuple[int, str] | None:
    """Return how many seeds it takes to detect a missing safeguard, and the finding, or None if `most` seeds do not."""
    remove, form = ALL[name]
    with remove():
        for count, seed in enumerate(itertools.islice(itertools.count(first), most), 1):
            result = world.World(seed, form=form).run()
            if result.violations:
                return count, result.violations[0]
    return None
