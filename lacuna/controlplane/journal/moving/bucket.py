"""A journal in the bucket that begins with a snapshot.

The manifest is written first, in a format that every version rejects, and is replaced at the end; both writes are
conditional. The first append is an opening. Further appends contain hot segments but no records, and the next leader's
opening follows them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self

from lacuna.controlplane.journal.bucket_appends import Appends, encode_append
from lacuna.controlplane.journal.bucket_calls import Bucket, probe, random_id
from lacuna.controlplane.journal.bucket_manifest import (
    START,
    Manifest,
    Mark,
    decode_manifest,
    encode_manifest,
)
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.formats import UNFINISHED
from lacuna.controlplane.journal.journal import (
    HotSegment,
    JournalCorrupt,
    JournalForeign,
    JournalInUse,
    JournalUnfinished,
)
from lacuna.controlplane.journal.moving.beginning import Beginning, occupied
from lacuna.controlplane.journal.place import BUCKET
from lacuna.logstore.objects import ConditionalStore, VersionedObject
from lacuna.logstore.segments.paths import (
    JOURNAL_APPENDS_PREFIX,
    JOURNAL_MANIFEST_KEY,
    journal_append_key,
)

_ANSWER_SECONDS: Final = 10.0


class BucketTarget:
    """The bucket of `store`, called `name` in messages. The caller closes the store."""

    def __init__(self, store: ConditionalStore, name: str) -> None:
        self.name = name
        self._bucket = Bucket(store, name, _ANSWER_SECONDS)
        self._snapshots = BucketSnapshots(store, BUCKET, name=name)
        self._manifest: Manifest
        self._etag = ""

    async def __aenter__(self) -> Self:
        await probe(self._bucket, random_id)
        await self._unfinished()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Do nothing, since there is nothing to release."""

    async def _unfinished(self) -> VersionedObject | None:
        """Return the manifest that an interrupted copy has left behind. Raises JournalForeign if there already is a
        journal.
        """
        found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
        remedy = (
            f"specify a different bucket or prefix, or move {JOURNAL_MANIFEST_KEY} and all objects under "
            f"{JOURNAL_APPENDS_PREFIX} away"
        )
        if found is None:
            if await self._bucket.list(JOURNAL_APPENDS_PREFIX):
                raise JournalForeign(
                    f"{self.name} holds the appends of a journal without its manifest: {remedy}"
                )
            return None
        try:
            manifest = decode_manifest(found.data)
        except JournalUnfinished:
            return found
        raise JournalForeign(occupied(self.name, manifest.cluster_id, remedy))

    async def write(self, beginning: Beginning) -> None:
        await self._snapshots.check(beginning.cluster_id)
        await self._claim(beginning)
        await self._snapshots.store(beginning.snapshot, beginning.cluster_id)
        after = Mark(0, beginning.snapshot.position)
        opening, data = encode_append(after, beginning.epoch, random_id(), ())
        if not await self._bucket.create(journal_append_key(opening.number), data):
            raise self._in_use()
        self._manifest = replace(self._manifest, trimmed=opening, last=opening, address=None)

    async def _claim(self, beginning: Beginning) -> None:
        found = await self._unfinished()
        self._manifest = Manifest(
            cluster_id=beginning.cluster_id,
            epoch=beginning.epoch,
            writer=random_id().hex(),
            address="",
            changes=1,
            trimmed=START,
            last=START,
        )
        data = encode_manifest(self._manifest, UNFINISHED)
        if found is None:
            await self._bucket.create(JOURNAL_MANIFEST_KEY, data)
        else:
            await self._bucket.replace(JOURNAL_MANIFEST_KEY, data, found.etag)
        written = await self._bucket.load(JOURNAL_MANIFEST_KEY)
        if written is None or written.data != data:
            raise self._in_use()
        self._etag = written.etag
        while await self._delete_appends():
            pass

    async def _delete_appends(self) -> bool:
        """Delete all appends, and return whether there were any, since an earlier copy may still be creating more."""
        found = False
        async for left in Appends(self._bucket).pages(0):
            found = True
            await self._bucket.delete([journal_append_key(number) for number, _ in left])
        return found

    async def add_hot(self, hot: Sequence[HotSegment]) -> None:
        """Create an append without records after the last one, to hold the segments."""
        epoch = self._manifest.epoch
        mark, data = encode_append(self._manifest.last, epoch, random_id(), (), hot)
        if not await self._bucket.create(journal_append_key(mark.number), data):
            raise self._in_use()
        self._manifest = replace(self._manifest, last=mark)

    async def read_back(self) -> Beginning:
        snapshot = await self._snapshots.load(self._manifest.cluster_id)
        header = await Appends(self._bucket).header_of(self._manifest.last.number)
        if header is None or header.mark != self._manifest.last or snapshot is None:
            raise JournalCorrupt(f"{self.name} does not contain what was written: copy it again")
        if snapshot.position != header.mark.position:
            raise JournalForeign(
                f"{self.name} has a snapshot at position {snapshot.position} under "
                f"journal/snapshots/, but the copied journal ends at {header.mark.position}. "
                "Check that the copied journal is the cluster's newest one. "
                "If so, move the objects under journal/snapshots/ elsewhere, and copy the journal again"
            )
        return Beginning(self._manifest.cluster_id, header.epoch, snapshot)

    async def finish(self) -> None:
        """Replace the manifest with one that control planes accept."""
        data = encode_manifest(replace(self._manifest, changes=2))
        if await self._bucket.replace(JOURNAL_MANIFEST_KEY, data, self._etag) is None:
            # It may be an earlier attempt whose answer was lost, since no other writer writes these bytes.
            found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
            if found is None or found.data != data:
                raise self._in_use()

    def _in_use(self) -> JournalInUse:
        return JournalInUse(
            f"another copy to {self.name} is in progress: let one of them finish first"
        )
