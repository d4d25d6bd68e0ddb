"""Snapshots as objects in a bucket, for a journal that is there or elsewhere.

The parts of a snapshot are written first and its index last, so that one which was not finished does not count.
"""

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any, Final

from lacuna.controlplane.journal.bucket_calls import LISTED_AT_ONCE, Bucket
from lacuna.controlplane.journal.formats import check_format
from lacuna.controlplane.journal.journal import JournalCorrupt, Snapshot
from lacuna.controlplane.journal.rows import checksum
from lacuna.controlplane.journal.snapshot_store import KEPT_SNAPSHOTS
from lacuna.logstore.objects import ConditionalStore
from lacuna.logstore.segments.paths import (
    JOURNAL_SNAPSHOTS_PREFIX,
    InvalidPathError,
    JournalSnapshotName,
    parse_journal_snapshot_key,
)

_FORMAT_VERSION: Final = 1
_PART_BYTES: Final = 4 << 20


def _random_id() -> bytes:
    return secrets.token_bytes(16)


class BucketSnapshots:
    """A SnapshotStore in a bucket, which messages call `name`.

    Several may store at the same time: each snapshot has a random id, the first eight bytes that `new_id` returns.
    """

    def __init__(
        self,
        store: ConditionalStore,
        *,
        name: str = "the bucket",
        answer_timeout: float = 10.0,
        new_id: Callable[[], bytes] = _random_id,
    ) -> None:
        self._bucket = Bucket(store, name, answer_timeout)
        self._new_id = new_id

    async def load(self) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are none. Raises JournalCorrupt."""
        tried: list[JournalSnapshotName] | None = None
        damage: JournalCorrupt | None = None
        # What is missing may have been deleted because newer ones were stored meanwhile: then those are listed now.
        while (names := _complete(await self._keys())) != tried:
            for name in reversed(names):
                try:
                    return await self._load(name)
                except JournalCorrupt as error:
                    damage = error
            tried = names
        if damage is not None and names:
            raise damage
        return None

    async def _load(self, name: JournalSnapshotName) -> Snapshot:
        count, crc = _decode_index(name, await self._read(name, name.index_key()))
        parts = await asyncio.gather(
            *(self._read(name, name.part_key(number)) for number in range(count))
        )
        state = b"".join(parts)
        if checksum(name.position, state) != crc:
            raise _damaged(name)
        return Snapshot(name.position, state)

    async def _read(self, name: JournalSnapshotName, key: str) -> bytes:
        data = await self._bucket.read(key)
        if data is None:
            raise JournalCorrupt(
                f"the snapshot at position {name.position} is incomplete: {key} is missing"
            )
        return data

    async def store(self, snapshot: Snapshot) -> int:
        """Store a snapshot, delete all before the newest two, and return the position of the older one of these."""
        state, position = snapshot.state, snapshot.position
        name = JournalSnapshotName(position, int.from_bytes(self._new_id()[:8]))
        begins = range(0, len(state), _PART_BYTES)
        for number, at in enumerate(begins):
            await self._write(name.part_key(number), state[at : at + _PART_BYTES])
        index = {
            "format_version": _FORMAT_VERSION,
            "position": position,
            "parts": len(begins),
            "crc": checksum(position, state),
        }
        await self._write(name.index_key(), json.dumps(index).encode())
        return await self._delete_old()

    async def _write(self, key: str, data: bytes) -> None:
        if not await self._bucket.create(key, data, is_urgent=False):
            raise JournalCorrupt(f"{self._bucket.name}: {key} exists already, under a random name")

    async def trimmable(self) -> int:
        """Return the position of the oldest snapshot, or 0 if there are fewer than `KEPT_SNAPSHOTS`."""
        return _oldest_kept(await self._keys())

    async def _delete_old(self) -> int:
        keys = await self._keys()
        oldest = _oldest_kept(keys)
        old = [(key, is_index) for key, (name, is_index) in keys.items() if name.position < oldest]
        # The indexes first: what is left if this is interrupted does not count as a snapshot.
        await self._bucket.delete([key for key, is_index in old if is_index])
        await self._bucket.delete([key for key, is_index in old if not is_index])
        return oldest

    async def _keys(self) -> dict[str, tuple[JournalSnapshotName, bool]]:
        """The keys of all snapshots; a bucket has a few, of some parts each."""
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


def _oldest_kept(keys: dict[str, tuple[JournalSnapshotName, bool]]) -> int:
    positions = sorted({name.position for name in _complete(keys)})
    return 0 if len(positions) < KEPT_SNAPSHOTS else positions[-KEPT_SNAPSHOTS]


def _decode_index(name: JournalSnapshotName, data: bytes) -> tuple[int, int]:
    """Return the number of parts and the checksum. Raises JournalCorrupt and JournalOfAnotherVersion."""
    try:
        fields: Any = json.loads(data)
        version, position = fields["format_version"], fields["position"]
        parts, crc = fields["parts"], fields["crc"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(name) from error
    check_format(
        f"the format of the snapshot at position {name.position}", version, _FORMAT_VERSION
    )
    if position != name.position or type(parts) is not int or not 0 <= parts < 10**6:
        raise _damaged(name)
    return parts, crc


def _damaged(name: JournalSnapshotName) -> JournalCorrupt:
    return JournalCorrupt(
        f"the snapshot at position {name.position} is not what was written ({name.index_key()}): restore the objects "
        "under journal/ from a backup"
    )
