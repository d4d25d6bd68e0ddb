"""Reads a journal in the bucket whose leader is another process, and measures how long that leader has been silent."""

from collections.abc import AsyncIterator

from lacuna.controlplane.journal.bucket_appends import Appends
from lacuna.controlplane.journal.bucket_calls import Bucket
from lacuna.controlplane.journal.bucket_manifest import Manifest, decode_manifest
from lacuna.controlplane.journal.formats import formats_of
from lacuna.controlplane.journal.journal import Fit, JournalBatch, Leader, Seal, Snapshot
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.logstore.objects import VersionedObject
from lacuna.logstore.segments.paths import JOURNAL_MANIFEST_KEY


class ManifestWatch:
    """Watches a journal's manifest, and measures for how long it has not changed."""

    def __init__(self, bucket: Bucket, watch: LeaderWatch) -> None:
        self._bucket = bucket
        self._watch = watch
        self._found: VersionedObject | None = None
        #: The state that a reader has last seen.
        self.seen: Manifest | None = None

    @property
    def name(self) -> str:
        """The bucket's name in messages."""
        return self._bucket.name

    @property
    def silent(self) -> float:
        """The number of seconds for which the manifest is known to have been unchanged, as of the last `look`."""
        return self._watch.silent

    async def look(self) -> VersionedObject | None:
        """Return the current manifest, or None if it does not exist."""
        asked_ms = self._watch.now_ms()
        found = self._found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
        self._watch.see(None if found is None else found.etag, asked_ms)
        return found

    async def take(self) -> VersionedObject | None:
        """Return the manifest as of the last `look` or, if that has already been taken, the current one. Return None if
        it does not exist.
        """
        found = self._found or await self.look()
        self._found = None
        return found


class BucketReader:
    """A JournalReader for a journal in the bucket."""

    def __init__(self, appends: Appends, watch: ManifestWatch, snapshots: SnapshotStore) -> None:
        self._appends = appends
        self._watch = watch
        self._snapshots = snapshots

    async def load_snapshot(self) -> Snapshot | None:
        manifest = await self._manifest()
        if manifest is None:
            return None
        return await self._snapshots.load(manifest.cluster_id, self._appends.fit)

    async def fit(self, position: int, seal: Seal, /) -> Fit:
        return await self._appends.fit(position, seal)

    async def read(
        self, after_position: int, seal: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        """Yield the batches after `after_position` that are durable now. Raises JournalTrimmed, JournalReplaced,
        JournalCorrupt and JournalUnreachable.

        If there is nothing new, this makes two requests, or one if the caller also uses `leader`.
        """
        async for batch in self._appends.batches(after_position, seal, seen=self._watch.seen):
            yield batch

    async def leader(self) -> Leader | None:
        """Return the leader, or None if there is none. Makes one request. Raises JournalUnreachable."""
        manifest = await self._manifest()
        if manifest is None or manifest.address is None:
            return None
        return Leader(manifest.epoch, manifest.address, self._watch.silent)

    async def _manifest(self) -> Manifest | None:
        found = await self._watch.look()
        with formats_of(self._watch.name):
            manifest = self._watch.seen = None if found is None else decode_manifest(found.data)
        if manifest is not None:
            self._appends.forget_hot(manifest.moved)
        return manifest

    async def close(self) -> None:
        """Do nothing: a reader has no connections, and the caller closes the store."""
