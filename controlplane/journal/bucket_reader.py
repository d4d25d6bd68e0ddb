"""Reads a journal in the bucket beside its leader, and judges how long the leader has been silent."""

from collections.abc import AsyncIterator

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.bucket_appends import Appends
from lacuna.controlplane.journal.bucket_calls import Bucket
from lacuna.controlplane.journal.bucket_manifest import decode_manifest
from lacuna.controlplane.journal.journal import JournalBatch, Leader, Snapshot
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.logstore.objects import VersionedObject
from lacuna.logstore.segments.paths import JOURNAL_MANIFEST_KEY


class Watch:
    """For how long the manifest has been the same, by the clock of this machine.

    Machines need not agree about the time: what counts is how much of it has passed here between two looks.
    """

    def __init__(self, bucket: Bucket, clock: Clock) -> None:
        self._bucket = bucket
        self._clock = clock
        self._etag = ""
        self._since_ms = 0.0
        #: Seconds for which it certainly was the same, as of the last look.
        self.silent = 0.0

    async def look(self) -> VersionedObject | None:
        """Return the manifest as it is now, or None if there is none."""
        before_ms = self._clock.passed_ms()
        found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
        etag = "" if found is None else found.etag
        if etag != self._etag:
            self._etag = etag
            self._since_ms = self._clock.passed_ms()
        # From the answer to the first look until the question of this one; the leader may have renewed just outside.
        self.silent = max(0.0, before_ms - self._since_ms) / 1000
        return found


class BucketReader:
    """A JournalReader of a journal in the bucket."""

    def __init__(self, appends: Appends, watch: Watch, snapshots: SnapshotStore) -> None:
        self._appends = appends
        self._watch = watch
        self._snapshots = snapshots

    async def load_snapshot(self) -> Snapshot | None:
        """Return the newest undamaged snapshot, or None if there are no snapshots. Raises JournalCorrupt."""
        return await self._snapshots.load()

    async def read(self, after_position: int) -> AsyncIterator[JournalBatch]:
        """Yield what is durable after `after_position` now. Raises JournalTrimmed, JournalCorrupt, JournalUnreachable.

        A look that finds nothing new is two requests.
        """
        async for batch in self._appends.batches(after_position):
            yield batch

    async def leader(self) -> Leader | None:
        """Return who leads, by one request, or None if nobody does. Raises JournalUnreachable."""
        found = await self._watch.look()
        manifest = None if found is None else decode_manifest(found.data)
        if manifest is None or manifest.holder is None:
            return None
        return Leader(manifest.epoch, manifest.address, self._watch.silent)

    async def close(self) -> None:
        """Leave the bucket to its owner: a reader has no connections of its own."""
