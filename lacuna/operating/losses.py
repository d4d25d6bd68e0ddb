"""Lets a cluster continue after losing part of its journal: finds what is missing, and keeps the intact part.

Losses are found by examining the journal's own files and the objects in the store.
"""

import asyncio
import dataclasses
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from lacuna.controlplane import machine
from lacuna.controlplane.clock import SystemClock
from lacuna.controlplane.eras import first_of_next_era
from lacuna.controlplane.journal.intact import Salvage
from lacuna.controlplane.journal.journal import Snapshot
from lacuna.controlplane.journal.moving.beginning import Beginning
from lacuna.controlplane.journal.moving.wreck import Wreck
from lacuna.controlplane.journal.salvage import locked, replace, salvage
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.segments import SegmentKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.verbs.losses import leases_of
from lacuna.logstore.objects import ObjectInfo, ObjectStore, ObjectStoreError
from lacuna.logstore.segments import (
    CorruptSegmentError,
    InvalidPathError,
    JournalEnd,
    LaterSegment,
    SegmentFooter,
    SegmentId,
    open_segment,
    parse_segment_key,
    read_marker,
    segments_prefix,
)
from lacuna.logstore.segments.hot import is_hot, lease_of
from lacuna.logstore.segments.marker import check_marker

_READS_AT_ONCE: Final = 8
_FOOTERS_AHEAD: Final = 256


@dataclass(slots=True)
class LostPartition:
    """A partition's records in segments that the journal does not know about. `size` is in bytes."""

    name: str
    segments: int = 0
    records: int = 0
    size: int = 0


@dataclass(slots=True)
class Objects:
    """The losses that a comparison with the store reveals.

    The journal does not know about `segments` segments with `size` bytes, so their records may be lost. Of these
    segments, `unreadable` have no readable footer, and `copies` come from merges and compactions. `missing` counts, by
    partition, the records whose segments are gone from the store. The journal does not know about the leases
    `lease_ids`; `later` is the latest segment written after the journal's end.
    """

    segments: int = 0
    size: int = 0
    unreadable: int = 0
    copies: int = 0
    partitions: dict[PartitionKey, LostPartition] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    lease_ids: set[int] = field(default_factory=set)
    later: LaterSegment | None = None


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """A loss that the operator has accepted.

    `kept` is where the damaged journal is kept, or "" if it is not. The cluster continues from `position`, although the
    journal had reached at least `reached`.
    """

    problems: list[str]
    position: int
    reached: int
    objects: Objects | None
    kept: str = ""

    @property
    def lost_lease_ids(self) -> list[int]:
        """The leases that the journal does not know about."""
        return [] if self.objects is None else sorted(self.objects.lease_ids)


def accept_loss(path: str, store: ObjectStore | None) -> AcceptedLoss | None:
    """Replaces a damaged journal with its intact part. Returns None if nothing is missing.

    Without a store, checks only the journal's files, and replaces the journal even if they show no loss: the operator
    may know of one from a store that is not configured here. Raises JournalError, ForeignStoreError, ObjectStoreError.
    """
    if not os.path.exists(path):
        return None
    with locked(path):
        salvaged = salvage(path)
        loss = _loss_of(salvaged, store)
        if not loss.problems and store is not None:
            return None
        kept = replace(salvaged, loss.lost_lease_ids, SystemClock().now_ms())
    return dataclasses.replace(loss, kept=kept)


async def accept_shared_loss(wreck: Wreck, store: ObjectStore | None) -> AcceptedLoss:
    """Restarts a shared journal from its intact part, even if no loss is apparent.

    No loss is apparent in a bucket restored entirely from a backup, although everything acknowledged since the backup
    is lost. With a store, the journal is compared with it. Raises JournalError, ForeignStoreError, ObjectStoreError.
    """
    salvaged = await wreck.salvage()
    loss = await asyncio.to_thread(_loss_of, salvaged, store)
    now_ms = SystemClock().now_ms()
    for record in machine.accept_loss(salvaged.state, loss.lost_lease_ids, now_ms):
        machine.replay(salvaged.state, record)
    position = first_of_next_era(max(salvaged.position, salvaged.reached))
    snapshot = Snapshot(position, machine.snapshot_parts(salvaged.state))
    kept = await wreck.begin(Beginning(salvaged.cluster_id, salvaged.fencing_token, snapshot))
    return dataclasses.replace(loss, kept=kept)


def _loss_of(salvaged: Salvage, store: ObjectStore | None) -> AcceptedLoss:
    objects = None if store is None else _look(store, salvaged)
    problems = list(salvaged.problems)
    if objects is not None and objects.later is not None:
        problems.append(_later(salvaged, objects.later))
    return AcceptedLoss(problems, salvaged.position, salvaged.reached, objects)


def _later(salvaged: Salvage, later: LaterSegment) -> str:
    after = f" after position {later.journal_position}" if later.journal_position else ""
    return (
        f"segment {later.segment_id} was written{after} and is later than position {salvaged.position}, "
        "where the journal ends"
    )


def _look(store: ObjectStore, salvaged: Salvage) -> Objects:
    """List all segments, and read the footers of those that the journal does not know about."""
    marker = read_marker(store)
    if marker is not None:
        check_marker(marker, salvaged.cluster_id)
    leases = leases_of(salvaged.state)
    end = JournalEnd(salvaged.position, leases.next_lease_id, {})
    objects = Objects()
    listed: set[SegmentKey] = set()
    with ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="losses") as executor:
        unknown = _unknown(store, salvaged, set(leases.lease_ids), listed)
        while some := list(islice(unknown, _FOOTERS_AHEAD)):
            footers = executor.map(partial(_footer, store), some)
            for info, footer in zip(some, footers, strict=True):
                _count(objects, salvaged.state, info, footer, end)
    _count_missing(objects, salvaged, listed)
    return objects


def _unknown(
    store: ObjectStore, salvaged: Salvage, leases: set[int], listed: set[SegmentKey]
) -> Iterator[ObjectInfo]:
    """Yield the segments that the journal neither refers to nor has deleted. Add all segments' keys to `listed`."""
    for info in store.list(segments_prefix(salvaged.cluster_id)):
        try:
            _, segment_id = parse_segment_key(info.key)
        except InvalidPathError:
            continue
        key = (segment_id.lease_id, segment_id.sequence)
        listed.add(key)
        lease_id = lease_of(segment_id.lease_id)
        is_possible = lease_id in leases or lease_id >= salvaged.state.next_lease_id
        if is_possible and key not in salvaged.state.segments:
            yield info


def _footer(store: ObjectStore, info: ObjectInfo) -> SegmentFooter | None:
    try:
        return open_segment(store, info.key, info.size)
    except (CorruptSegmentError, ObjectStoreError):
        return None


def _count(
    objects: Objects, state: State, info: ObjectInfo, footer: SegmentFooter | None, end: JournalEnd
) -> None:
    _, segment_id = parse_segment_key(info.key)
    lease_id = lease_of(segment_id.lease_id)
    written = SegmentId(lease_id, segment_id.sequence)
    position = 0 if footer is None else footer.journal_position
    _note_later(objects, LaterSegment(info.key, written, position), end)
    objects.segments += 1
    objects.size += info.size
    if lease_id >= state.next_lease_id:
        objects.lease_ids.add(lease_id)
    if footer is None:
        objects.unreadable += 1
    elif footer.identity.has_true_offsets:
        objects.copies += 1
    else:
        _count_slices(objects, state, footer)


def _note_later(objects: Objects, segment: LaterSegment, end: JournalEnd) -> None:
    def age(each: LaterSegment) -> tuple[int, SegmentId]:
        return each.journal_position, each.segment_id

    if end.is_before(segment) and (objects.later is None or age(segment) > age(objects.later)):
        objects.later = segment


def _count_slices(objects: Objects, state: State, footer: SegmentFooter) -> None:
    for each in footer.slices:
        key = (each.topic_id, each.partition)
        lost = objects.partitions.get(key)
        if lost is None:
            lost = objects.partitions[key] = LostPartition(_name(state, key))
        lost.segments += 1
        lost.records += each.block_offsets[-1] - each.block_offsets[0]
        lost.size += each.size


def _name(state: State, key: PartitionKey) -> str:
    topic = state.topics.get(key[0])
    name = topic.name if topic is not None else f"topic {show_id(key[0])} (also lost)"
    return f"{name} [{key[1]}]"


def _count_missing(objects: Objects, salvaged: Salvage, listed: set[SegmentKey]) -> None:
    """Count the records that the journal refers to but whose segments are gone."""
    state, hot = salvaged.state, salvaged.hot
    gone = {
        row.key
        for row in state.segments
        if row.live_extents
        and row.key not in listed
        and (not is_hot(row.key[0]) or (hot is not None and row.key not in hot))
    }
    if not gone:
        return
    for key, partition in state.partitions.items():
        extents = partition.extents
        keys = zip(extents.lease_ids, extents.sequences, strict=True)
        offsets = zip(extents.base_offsets, extents.next_offsets, strict=True)
        count = sum(
            end - base for each, (base, end) in zip(keys, offsets, strict=True) if each in gone
        )
        if count:
            objects.missing[_name(state, key)] = count


def describe(loss: AcceptedLoss) -> Iterator[str]:
    """Describe an accepted loss to the operator, line by line."""
    for problem in loss.problems:
        yield f"{problem}."
    if not loss.problems:
        yield "The journal itself shows no loss. " + (
            "No object store is configured here, so the journal was not compared with one."
            if loss.objects is None
            else "The object store shows no loss either."
        )
    yield f"The cluster continues from position {loss.position}."
    if loss.reached > loss.position:
        yield (
            f"Lost: positions {loss.position + 1} to {loss.reached}, with everything acknowledged "
            "there, including topics, transaction outcomes and group offsets."
        )
    if loss.objects is not None:
        yield from _describe_objects(loss.objects)
    if loss.kept:
        yield f"The original journal is kept in {loss.kept}."


def _describe_objects(objects: Objects) -> Iterator[str]:
    if objects.segments:
        yield (
            f"The store has {objects.segments} segments ({objects.size} bytes) that the journal does "
            "not know. Their records are lost; some of them may never have been acknowledged:"
        )
    for lost in sorted(objects.partitions.values(), key=lambda each: each.name):
        yield f"  {lost.name}: {lost.records} records, {lost.size} bytes, in {lost.segments} segments"
    if objects.copies:
        yield f"  {objects.copies} come from merges or compactions and contain copies"
    if objects.unreadable:
        yield f"  {objects.unreadable} cannot be read, so their contents are unknown"
    if objects.segments:
        yield "The segments will be deleted in about five minutes: copy them first if you want to keep them."
    for name, count in sorted(objects.missing.items()):
        yield f"{name}: {count} records that the journal refers to are no longer in the store"
