"""Copies a journal to another place. The copy begins with a snapshot of the state, at the same position."""

import asyncio
import struct
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from lacuna.controlplane import machine
from lacuna.controlplane.journal.journal import JournalCorrupt, Snapshot
from lacuna.controlplane.journal.moving.beginning import Beginning, Target
from lacuna.controlplane.journal.moving.source import Source
from lacuna.controlplane.journal.replica import restored

_POSITION: Final = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy. `digest` is the SHA-256 of the position and state, as read back from the target."""

    cluster_id: str
    position: int
    digest: str


async def copy_journal(source: AbstractAsyncContextManager[Source], target: Target) -> Copied:
    """Copy a journal, and verify the copy before any control plane can open it. Raises JournalError."""
    async with target, source as led:
        snapshot = await asyncio.to_thread(led.take_snapshot)
        written = Beginning(led.opened.cluster_id, led.opened.fencing_token, snapshot)
        await target.write(written)
        async for hot in led.hot():
            await target.add_hot(hot)
        copied = _described(written, snapshot)
        found = await target.read_back()
        again = await asyncio.to_thread(_restored, found.snapshot)
        if (_described(found, again), found.epoch) != (copied, written.epoch):
            raise JournalCorrupt(
                f"{target.name} does not return what was written, so no control plane will use "
                "it: copy it again"
            )
        await led.confirm()
        await target.finish()
    return copied


def _described(beginning: Beginning, snapshot: Snapshot) -> Copied:
    digest = sha256(_POSITION.pack(snapshot.position))
    for part in snapshot.parts:
        digest.update(part)
    return Copied(beginning.cluster_id, snapshot.position, digest.hexdigest())


def _restored(snapshot: Snapshot) -> Snapshot:
    """Restore the state in a snapshot, and return a snapshot of it. Equal states yield equal bytes."""
    return Snapshot(snapshot.position, tuple(machine.snapshot_parts(restored(snapshot))))
