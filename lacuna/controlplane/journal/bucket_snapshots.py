"""Snapshots as objects in a bucket, for a journal in the same bucket or elsewhere.

The parts of a snapshot are written before its index, so that an unfinished snapshot is ignored. The index names the
cluster and the kind of journal, and contains the seal of the last append that it covers. A bucket belongs to one
cluster, but may contain the snapshots of two of its journals, one in the bucket and one in PostgreSQL, if one is a copy
of the other. Neither journal touches the other's snapshots. Two journals in PostgreSQL are told apart by their seals.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from lacuna.controlplane.journal.bucket_calls import LISTED_AT_ONCE, Bucket, random_id
from lacuna.controlplane.journal.formats import check_format
from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalError,
    JournalForeign,
    JournalUnreachable,
    Judge,
    Seal,
    Snapshot,
)
from lacuna.controlplane.journal.rows import add_checksum, checksum
from lacuna.controlplane.journal.snapshot_store import KEPT_SNAPSHOTS, fitting, loadable
from lacuna.logstore.objects import ConditionalStore
from lacuna.logstore.segments import ForeignStoreError
from lacuna.logstore.segments.marker import decode_marker
from lacuna.logstore.segments.paths import (
    CLUSTER_MARKER_KEY,
    JOURNAL_SNAPSHOTS_PREFIX,
    InvalidPathError,
    JournalSnapshotName,
    parse_journal_snapshot_key,
)

_log = logging.getLogger("lacuna.controlplane")

_FORMAT_VERSION: Final = 1
#: The time limit for a part starts when the part is requested, and suffices for a link of 2 MB/s.
_PARTS_AT_ONCE: Final = 4
#: A process that loads a snapshot is not the leader yet, so this time is not part of a lease.
_ANSWER_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Index:
    """The contents of a snapshot's index. `seal` is None if the journal begins with the snapshot."""

    name: JournalSnapshotName
    parts: int
    crc: int
    cluster_id: str
    journal: str
    seal: Seal | None

    @property
    def position(self) -> int:
        return self.name.position


class BucketSnapshots:
    """A SnapshotStore in a bucket, called `name` in messages. `journal` is the kind of journal that the snapshots
    belong to.

    Several processes may store snapshots concurrently: each snapshot has a random id, the first eight bytes that
    `new_id` returns.
    """

    def __init__(
        self,
        store: ConditionalStore,
        journal: str,
        *,
        name: str = "the bucket",
        new_id: Callable[[], bytes] = random_id,
    ) -> None:
        self._bucket = Bucket(store, name, _ANSWER_SECONDS)
        self._journal = journal
        self._new_id = new_id

    async def check(self, cluster_id: str | None, /) -> None:
        """Raise JournalForeign if the bucket's marker or a snapshot names a different cluster."""
        marker = await self._bucket.read(CLUSTER_MARKER_KEY)
        if marker is not None:
            try:
                found = decode_marker(marker).cluster_id
            except ForeignStoreError as error:
                raise JournalForeign(f"{self._bucket.name}: {error}") from error
            if found != cluster_id:
                raise self._foreign(found, cluster_id)
        indexes, _ = await self._indexes(await self._keys())
        for index in indexes:
            if index.cluster_id != cluster_id:
                raise self._foreign(index.cluster_id, cluster_id)

    def _foreign(self, found: str, cluster_id: str | None) -> JournalForeign:
        ours = f"belongs to cluster {cluster_id}" if cluster_id else "is new"
        return JournalForeign(
            f"{self._bucket.name} belongs to cluster {found}, but the journal {ours}: specify the "
            "bucket or prefix that belongs to this journal (--store), or the journal of cluster "
            f"{found} (--journal)"
        )

    async def load(self, cluster_id: str | None, judge: Judge | None = None, /) -> Snapshot | None:
        """Return the newest undamaged snapshot that fits, or None if there are none. Raises JournalCorrupt, JournalLoss
        and JournalForeign.
        """
        tried: list[JournalSnapshotName] | None = None
        damage: JournalCorrupt | None = None
        keys = await self._keys()
        # A missing snapshot may have been deleted because newer ones have been stored in the meantime, so list them
        # again.
        while (names := _complete(keys)) != tried:
            indexes, damage = await self._indexes(keys)
            own = await loadable(self._bucket.name, self._own(indexes, cluster_id), judge)
            for index in reversed(own):
                try:
                    return await self._load(index)
                except JournalCorrupt as error:
                    damage = error
            tried, keys = names, await self._keys()
        if damage is not None and names:
            raise damage
        return None

    async def _load(self, index: _Index) -> Snapshot:
        name, turns = index.name, asyncio.Semaphore(_PARTS_AT_ONCE)

        async def part(number: int) -> bytes:
            async with turns:
                return await self._read(name, name.part_key(number))

        parts = tuple(await asyncio.gather(*(part(number) for number in range(index.parts))))
        if reduce(add_checksum, parts, checksum(name.position, b"")) != index.crc:
            raise _damaged(name)
        return Snapshot(name.position, parts, index.seal)

    async def _read(self, name: JournalSnapshotName, key: str) -> bytes:
        data = await self._bucket.read(key)
        if data is None:
            raise JournalCorrupt(
                f"the snapshot at position {name.position} is incomplete: {key} is missing"
            )
        return data

    async def store(
        self, snapshot: Snapshot, cluster_id: str, judge: Judge | None = None, /
    ) -> int:
        """Store a snapshot, delete all but the newest two that fit, and return the position of the older of these.

        Raises JournalForeign, before anything is written, if the bucket contains a snapshot of a different cluster.
        """
        position = snapshot.position
        await self.trimmable(cluster_id)
        name = JournalSnapshotName(position, int.from_bytes(self._new_id()[:8]))
        count, crc = 0, checksum(position, b"")
        for part in snapshot.parts:
            await self._write(name.part_key(count), part)
            count, crc = count + 1, add_checksum(crc, part)
        index = {
            "format_version": _FORMAT_VERSION,
            "position": position,
            "parts": count,
            "crc": crc,
            "cluster_id": cluster_id,
            "journal": self._journal,
            "seal": snapshot.seal,
        }
        await self._write(name.index_key(), json.dumps(index).encode())
        return await self._delete_old(cluster_id, judge)

    async def _write(self, key: str, data: bytes) -> None:
        if not await self._bucket.create(key, data, is_urgent=False):
            raise JournalCorrupt(
                f"{self._bucket.name}: {key} already exists, although its name is random"
            )

    async def trimmable(self, cluster_id: str, judge: Judge | None = None, /) -> int:
        indexes, _ = await self._indexes(await self._keys())
        return await self._oldest_kept(indexes, cluster_id, judge)

    async def _oldest_kept(
        self, indexes: list[_Index], cluster_id: str, judge: Judge | None
    ) -> int:
        own = await fitting(self._own(indexes, cluster_id), judge)
        positions = sorted({index.position for index in own})
        return 0 if len(positions) < KEPT_SNAPSHOTS else positions[-KEPT_SNAPSHOTS]

    async def _delete_old(self, cluster_id: str, judge: Judge | None) -> int:
        keys = await self._keys()
        indexes, _ = await self._indexes(keys)
        oldest = await self._oldest_kept(indexes, cluster_id, judge)
        own = {index.name for index in indexes if index.journal == self._journal}
        unfinished = {name for name, _ in keys.values()} - set(_complete(keys))
        old = {name for name in own | unfinished if name.position < oldest}
        # The indexes are deleted first, since parts that are left over by an interruption do not count as a snapshot.
        for which in (True, False):
            await self._delete(
                [key for key, (name, is_index) in keys.items() if name in old and is_index == which]
            )
        return oldest

    async def _delete(self, keys: list[str]) -> None:
        """Delete objects. Any that remain only take up space, and are deleted after the next snapshot."""
        try:
            await self._bucket.delete(keys)
        except JournalUnreachable:
            raise
        except JournalError as error:
            _log.warning("an old snapshot could not be deleted: %s", error)

    def _own(self, indexes: list[_Index], cluster_id: str | None) -> list[_Index]:
        for index in indexes:
            if cluster_id is not None and index.cluster_id != cluster_id:
                raise self._foreign(index.cluster_id, cluster_id)
        return [index for index in indexes if index.journal == self._journal]

    async def _indexes(
        self, keys: dict[str, tuple[JournalSnapshotName, bool]]
    ) -> tuple[list[_Index], JournalCorrupt | None]:
        """Return the indexes in the order of their positions, and the error of one that cannot be read. Raises
        JournalOfAnotherVersion.
        """
        found: list[_Index] = []
        damage: JournalCorrupt | None = None
        for name in _complete(keys):
            try:
                found.append(_decode_index(name, await self._read(name, name.index_key())))
            except JournalCorrupt as error:
                damage = error
        return found, damage

    async def _keys(self) -> dict[str, tuple[JournalSnapshotName, bool]]:
        """Return the keys of all snapshot objects, both indexes and parts."""
        keys: dict[str, tuple[JournalSnapshotName, bool]] = {}
        last = ""
        while page := await self._bucket.list(JOURNAL_SNAPSHOTS_PREFIX, last):
            last = page[-1].key
            for info in page:
                try:
                    keys[info.key] = parse_journal_snapshot_key(info.key)
                except InvalidPathError:
                    continue
            if len(page) < LISTED_AT_ONCE:
                break
        return keys


def _complete(keys: dict[str, tuple[JournalSnapshotName, bool]]) -> list[JournalSnapshotName]:
    return sorted(name for name, is_index in keys.values() if is_index)


def _decode_index(name: JournalSnapshotName, data: bytes) -> _Index:
    try:
        fields: Any = json.loads(data)
        version = fields["format_version"]
        check_format(
            f"the format of the snapshot at position {name.position}", version, _FORMAT_VERSION
        )
        position, seal = fields["position"], _decode_seal(fields["seal"])
        cluster_id, journal = fields["cluster_id"], fields["journal"]
        index = _Index(name, fields["parts"], fields["crc"], cluster_id, journal, seal)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(name) from error
    if position != name.position or type(index.parts) is not int or not 0 <= index.parts < 10**6:
        raise _damaged(name)
    return index


def _decode_seal(found: Any) -> Seal | None:
    if found is None:
        return None
    place, crc = found
    if type(place) is not int or type(crc) is not int:
        raise TypeError("a seal consists of two numbers")
    return Seal(place, crc)


def _damaged(name: JournalSnapshotName) -> JournalCorrupt:
    return JournalCorrupt(
        f"the snapshot at position {name.position} differs from what was written "
        f"({name.index_key()}): restore the objects under journal/ from a backup"
    )
