"""The journal in the bucket alone, without a database (adr/0027).

Each append is one object, created under the next number with `If-None-Match: *`, so that only one writer can succeed
with each number. A new leader first raises the epoch in the manifest, with `If-Match`, and then creates an opening, an
append without records, at the end. The next append of every earlier leader fails, since its number is that of an
opening.

    takeover: load the manifest · replace it, epoch + 1 · list the last appends, read those not read yet ·
              create the opening · replace the manifest, to be sure

The last step fails if yet another leader has taken over. In that case, appends may have been trimmed while this leader
was paused, and its opening may have the number of a trimmed one. Openings are never deleted, so an earlier leader can
never append, however late it wakes up.

The hot segments of an append are in its object (`bucket_hot`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.journal.bucket_appends import (
    OPENING_BYTES,
    Appends,
    encode_append,
    hot_entries,
    lost,
)
from lacuna.controlplane.journal.bucket_calls import Bucket, probe, random_id
from lacuna.controlplane.journal.bucket_hot import HotAppends
from lacuna.controlplane.journal.bucket_manifest import (
    START,
    HeldManifest,
    Manifest,
    ManifestRenewer,
    Mark,
    decode_manifest,
    encode_manifest,
)
from lacuna.controlplane.journal.bucket_reader import BucketReader, ManifestWatch
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.journal import (
    REMEDY,
    HotKey,
    HotSegment,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInDoubt,
    JournalInUse,
    JournalLoss,
    JournalOfAnotherVersion,
    JournalUnfinished,
    JournalUnreachable,
    OpenedJournal,
    Seal,
    Snapshot,
)
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.one_append import OneAppend
from lacuna.controlplane.journal.place import BUCKET, Place
from lacuna.controlplane.journal.snapshot_store import SnapshotStore
from lacuna.logstore.objects import ConditionalStore
from lacuna.logstore.segments.paths import (
    JOURNAL_APPENDS_PREFIX,
    JOURNAL_MANIFEST_KEY,
    journal_append_key,
)

_log = logging.getLogger("lacuna.controlplane")

#: How often `open` checks during a lease whether the leader has renewed it.
_LOOKS_A_LEASE: Final = 20
#: How many times a running leader may win the race for the next number before `open` gives up.
_LOST_RACES: Final = 1000
#: A new control plane reads each append with a separate request, which takes a millisecond of CPU time.
_SNAPSHOT_APPENDS: Final = 2_000


class BucketJournal:
    """A SharedJournal in the bucket of `store`, called `name` in messages. The caller closes the store.

    `new_cluster_id` returns an id for a new cluster, and `new_id` 16 random bytes. `address` is where this writer
    serves. It takes over from an earlier writer that has closed the journal, or has not changed the manifest for
    `lease` seconds, measured by `clock`. An append that is not answered within `answer_timeout` seconds is in doubt.
    Snapshots are in the same bucket unless `snapshots` is a different store. `place` tells the snapshot process where
    to find the journal and its snapshots.
    """

    snapshot_appends: int | None = _SNAPSHOT_APPENDS

    def __init__(
        self,
        store: ConditionalStore,
        new_cluster_id: Callable[[], str],
        *,
        name: str = "the bucket",
        address: str = "",
        lease: float = 0.0,
        answer_timeout: float = 10.0,
        snapshots: SnapshotStore | None = None,
        place: Place | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], bytes] = random_id,
    ) -> None:
        self.name = name
        self._place = place or Place(BUCKET)
        self.lease = lease
        self._new_cluster_id = new_cluster_id
        self._address = address
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._bucket = Bucket(store, name, answer_timeout)
        self._snapshots = snapshots or BucketSnapshots(store, BUCKET, name=name, new_id=new_id)
        self._appends = Appends(self._bucket)
        self._hot = HotAppends(self._bucket, self._appends)
        #: The last append that a trim has kept because a snapshot is checked against it.
        self._kept = 0
        self._watch = ManifestWatch(self._bucket, LeaderWatch(self._clock))
        self._is_probed = False
        self._is_open = False
        self._held: HeldManifest | None = None
        self._last = START
        self._appending = OneAppend()
        self._failed: JournalError | None = None

    async def check(self) -> None:
        """Make sure that the bucket honours conditional writes and belongs to the journal, unless already checked.

        `open` does this too; a standby calls `check` beforehand, so that it can take over sooner. Raises
        JournalRefused, JournalForeign and JournalUnreachable.
        """
        if not self._is_probed:
            await probe(self._bucket, self._new_id)
            found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
            if found is not None:
                await self._snapshots.check(self._decode(found.data, None).cluster_id)
            self._is_probed = True

    @property
    def place(self) -> str:
        return self._place.text()

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        """Take the journal over from its last writer, or create it.

        Waits until that writer has been silent for a lease, unless it has left or its silence has already been
        observed. Raises JournalInUse as soon as the writer renews its lease, JournalRefused if the bucket cannot hold a
        journal, JournalLoss if an acknowledged append is missing, JournalUnreachable, JournalForeign and
        JournalCorrupt.
        """
        if self._is_open:
            raise JournalInUse("this journal is already open")
        self._is_open = True
        self._failed = None
        try:
            await self.check()
            # Read before the takeover, while no other writer can have a later epoch than this one.
            known = self._appends.last_known
            held = await self._take_over(cluster_id)
            await self._begin(held, known)
            return OpenedJournal(held.manifest.cluster_id, held.manifest.epoch, self._last.position)
        except BaseException:
            self._is_open = False
            raise

    async def _begin(self, held: HeldManifest, known: Mark) -> None:
        """Shut earlier writers out of the journal, and find its end. `known` is an append that has been read before."""
        try:
            self._last = await self._fence(held.manifest, known)
            # If yet another leader has taken over, this opening may not be at the journal's end.
            await held.change(lambda manifest: replace(manifest, last=self._last))
        except JournalUnreachable:
            raise
        except JournalError as error:
            # Another leader that has taken over may have trimmed what this one was about to read.
            try:
                await held.change(partial(_left, held.manifest.last))
            except JournalFenced as fenced:
                raise JournalInUse(f"another control plane took over first: {fenced}") from error
            raise
        self._held = held

    async def _take_over(self, cluster_id: str | None) -> HeldManifest:
        """Write this leader's epoch into the manifest, unless another writer has changed it."""
        writer = self._new_id().hex()
        while True:
            found = await self._watch.take()
            if found is None:
                await self._create(cluster_id, writer)
                continue
            manifest = self._decode(found.data, cluster_id)
            if manifest.writer == writer:
                # This was an earlier, unanswered attempt by this writer: no other writer uses this id.
                return HeldManifest(self._bucket, manifest, found.etag)
            if not await self._may_be_taken(manifest, found.etag):
                continue
            wanted = replace(
                manifest,
                epoch=manifest.epoch + 1,
                writer=writer,
                address=self._address,
                changes=manifest.changes + 1,
            )
            etag = await self._bucket.replace(
                JOURNAL_MANIFEST_KEY, encode_manifest(wanted), found.etag
            )
            if etag is not None:
                return HeldManifest(self._bucket, wanted, etag)

    async def _create(self, cluster_id: str | None, writer: str) -> None:
        """Create the manifest of a new journal, led by this writer. Raises JournalLoss if there are appends already."""
        first = await self._bucket.list(JOURNAL_APPENDS_PREFIX)
        if first and await self._watch.look() is None:
            raise JournalLoss(
                f"{self.name} has the appends of a journal, but {JOURNAL_MANIFEST_KEY} is missing: restore it from an "
                f"earlier version in the bucket. {REMEDY}"
            )
        if not first:
            await self._snapshots.check(cluster_id)
            manifest = Manifest(
                cluster_id=cluster_id or self._new_cluster_id(),
                epoch=1,
                writer=writer,
                address=self._address,
                changes=1,
                trimmed=START,
                last=START,
            )
            await self._bucket.create(JOURNAL_MANIFEST_KEY, encode_manifest(manifest))

    def _decode(self, data: bytes, cluster_id: str | None) -> Manifest:
        try:
            manifest = decode_manifest(data)
        except (JournalOfAnotherVersion, JournalUnfinished) as error:
            raise type(error)(f"{self.name}: {error.what}") from error
        except JournalForeign as error:
            raise JournalForeign(
                f"{self.name}: {error}: specify a different bucket or prefix"
            ) from error
        if cluster_id not in (None, manifest.cluster_id):
            raise JournalForeign(
                f"{self.name} belongs to cluster {manifest.cluster_id}, not {cluster_id}: "
                f"specify the bucket of cluster {cluster_id}, or an empty one"
            )
        return manifest

    async def _may_be_taken(self, manifest: Manifest, etag: str) -> bool:
        """Wait until the manifest's holder has been silent for a lease. Return False if it has left in the meantime.

        Raises JournalInUse if the holder renews its lease.
        """
        while manifest.address is not None and self._watch.silent < self.lease:
            rest = self.lease - self._watch.silent
            await self._clock.sleep(1 + int(1000 * min(rest, self.lease / _LOOKS_A_LEASE)))
            found = await self._watch.look()
            if found is None:
                return False
            if found.etag != etag:
                if decode_manifest(found.data).address is None:
                    return False
                raise self._in_use(manifest)
        return True

    def _in_use(self, manifest: Manifest) -> JournalInUse:
        return JournalInUse(
            f"another control plane is running on this data ({self.name}) at {manifest.address}. "
            f"Stop it first, or wait until it has been silent for {self.lease:g} s"
        )

    async def _fence(self, manifest: Manifest, known: Mark) -> Mark:
        """Create this leader's opening after the last append, and return its mark."""
        last = manifest.last
        _, following, is_there, listed = await asyncio.gather(
            self._check_last(last),
            self._following(last),
            self._is_there(known),
            self._with_content(manifest.moved),
        )
        if not is_there:
            self._appends.forget()
        if is_there and known.number in following:
            # Appends that have been read before need not be read again.
            last, following = known, [number for number in following if number > known.number]
        for _ in range(_LOST_RACES):
            if following:
                last = await self._read_on(last, following[-1], manifest.epoch)
            opening, data = encode_append(last, manifest.epoch, self._new_id(), ())
            if await self._bucket.create(journal_append_key(opening.number), data):
                self._appends.note(opening)
                await self._hot.open(listed, manifest.moved, opening.number)
                return opening
            following = await self._following(last)
        raise JournalInUse(
            f"{self.name}: the previous control plane is still running and appends before this one "
            "can: stop the previous one"
        )

    async def _is_there(self, mark: Mark) -> bool:
        """Whether this append is still in its place in the journal, which may have been restored to an earlier time."""
        header = await self._appends.header_of(mark.number) if mark.number else None
        return header is not None and header.mark == mark

    async def _read_on(self, last: Mark, until: int, epoch: int) -> Mark:
        """Read the appends after `last` up to number `until`, and return the mark of the final one."""
        async for append in self._appends.follow(last, until=until):
            if append.header.epoch > epoch:
                raise JournalFenced(
                    f"another control plane has taken over {self.name} with epoch {append.header.epoch}"
                )
            last = append.header.mark
        return last

    async def _check_last(self, last: Mark) -> None:
        """Raise JournalLoss if the append that the manifest records as the last one does not exist."""
        if not last.number:
            return
        header = await self._appends.header_of(last.number)
        if header is None:
            raise lost(self.name, last.number)
        if header.mark != last:
            raise JournalCorrupt(
                f"{self.name}: {journal_append_key(last.number)} and {JOURNAL_MANIFEST_KEY} "
                "belong to different journals: restore the objects under journal/ from one backup"
            )

    async def _following(self, last: Mark) -> list[int]:
        """Return the numbers of all later appends. There are few, since `last` is updated with each lease renewal.
        Raises JournalLoss if there is a gap.
        """
        numbers: list[int] = []
        async for page in self._appends.pages(last.number):
            numbers += [number for number, _ in page]
        for expected, number in enumerate(numbers, last.number + 1):
            if number != expected:
                raise lost(self.name, expected)
        return numbers

    async def _with_content(self, after: int) -> list[int]:
        """Return the numbers of the appends after number `after` that are not openings."""
        pages = self._appends.pages(after)
        return [number async for page in pages for number, size in page if size > OPENING_BYTES]

    def renewer(self, fencing_token: int) -> ManifestRenewer:
        """Return the renewer of this writer's lease, which also records the journal's end in the manifest."""
        held = self._opened()
        if fencing_token != held.manifest.epoch:
            raise self._fenced(fencing_token)
        return ManifestRenewer(held, self._ended)

    def _ended(self, manifest: Manifest) -> Manifest:
        """Return the manifest, updated with the journal's end and the number up to which no append has a live hot
        segment.
        """
        return replace(manifest, last=self._last, moved=self._hot.moved)

    async def confirm(self, fencing_token: int) -> None:
        """Make sure, with one GET, that no other writer has taken over. Raises JournalFenced and JournalUnreachable."""
        held = self._opened()
        if fencing_token != held.manifest.epoch:
            raise self._fenced(fencing_token)
        await held.confirm()

    def reader(self) -> BucketReader:
        """Return a reader of this journal. Appends that it has read make the journal's `read` and `open` faster."""
        return BucketReader(self._appends, self._watch, self._snapshots)

    async def read(
        self, after_position: int, seal: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        """Yield all batches after `after_position`. Raises JournalCorrupt, JournalReplaced, JournalTrimmed and
        JournalUnreachable.
        """
        self._opened()
        if seal is not None:
            await self._appends.check(seal)
        if after_position < self._last.position:
            async for batch in self._appends.batches(after_position, until=self._last.number):
                yield batch

    @property
    def hot(self) -> Mapping[HotKey, int]:
        return self._hot.sizes

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        """Return the bytes of hot segments, with one request for each append that contains any. Raises
        JournalCorrupt.
        """
        self._opened()
        return await self._hot.read(keys)

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        """Forget hot segments, and delete the appends that were kept only for their sake.

        Segments forgotten in the last seconds before a crash reappear. An append that no snapshot covers yet is left
        for a later `trim` to delete.
        """
        self._opened()
        dead = self._hot.drop(keys, self._last.number)
        await self._bucket.delete(
            [journal_append_key(number) for number in dead if number < self._kept]
        )

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        """Append the records as one object, which is durable once the future is done.

        The future fails with JournalInDoubt if the bucket does not answer in time. After any error, the journal must be
        opened again.
        """
        if self._failed is not None:
            raise self._failed
        held = self._opened()
        # This is a separate task, so that the append continues even if no caller is waiting.
        return self._appending.begin(partial(self._append, records, fencing_token, held, hot))

    async def _append(
        self,
        records: Sequence[bytes],
        fencing_token: int,
        held: HeldManifest,
        hot: Sequence[HotSegment],
    ) -> int:
        epoch = held.manifest.epoch
        if fencing_token != epoch:
            raise self._fenced(fencing_token)
        mark, data = encode_append(self._last, epoch, self._new_id(), records, hot)
        try:
            is_ours = await self._bucket.create(journal_append_key(mark.number), data)
        except JournalUnreachable as error:
            self._failed = JournalInDoubt(
                f"{error}. Reopening the journal will show whether positions "
                f"{self._last.position + 1} to {mark.position} were written"
            )
            raise self._failed from error
        except JournalError as error:
            self._failed = error
            raise
        if not is_ours:
            self._failed = JournalFenced(
                f"another control plane has taken over the journal in {self.name} and written append {mark.number}: "
                "this one is stepping down"
            )
            raise self._failed
        self._last = mark
        self._appends.note(mark)
        self._hot.note(mark.number, hot_entries(mark.number, data) if hot else ())
        return mark.position

    def _fenced(self, fencing_token: int) -> JournalFenced:
        return JournalFenced(
            f"another control plane has taken over {self.name} (the epoch is no longer {fencing_token}): "
            "this one is stepping down"
        )

    async def load_snapshot(self) -> Snapshot | None:
        cluster_id = self._opened().manifest.cluster_id
        return await self._snapshots.load(cluster_id, self._appends.fit)

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot, then delete the appends that are no longer needed for a restart, while new appends
        continue.

        Raises JournalFenced instead of deleting if another writer has taken over.
        """
        cluster_id = self._opened().manifest.cluster_id
        await self._snapshots.store(snapshot, cluster_id, self._appends.fit)
        await self.trim()

    async def trim(self) -> None:
        """Delete the appends that are no longer needed for a restart, after marking them as trimmed in the manifest.

        Raises JournalFenced if another writer has taken over.
        """
        held = self._opened()
        end = await self._snapshots.trimmable(held.manifest.cluster_id, self._appends.fit)
        before = held.manifest.trimmed
        if end <= before.position:
            return
        trimmed = await self._appends.last_before(end, before, self._last, within=1)
        await held.change(
            lambda manifest: replace(self._ended(manifest), trimmed=max(manifest.trimmed, trimmed))
        )
        self._appends.forget_hot(self._last.number)
        await self._delete(held.manifest.trimmed)

    async def _delete(self, trimmed: Mark) -> None:
        """Delete the trimmed appends, including any that an earlier call has left behind.

        Openings and appends with live hot segments are kept. So is the last trimmed append, since the snapshot that
        replaces the trimmed ones is checked against it.
        """
        last: list[int] = []
        failure: JournalError | None = None
        async for page in self._appends.pages(0):
            trimmable = last + [
                number for number, size in page if number <= trimmed.number and size > OPENING_BYTES
            ]
            trimmable, last = trimmable[:-1], trimmable[-1:]
            self._kept = max([self._kept, *last])
            try:
                await self._bucket.delete(
                    [journal_append_key(each) for each in trimmable if not self._hot.is_live(each)]
                )
            except JournalUnreachable:
                raise
            except JournalError as error:
                # An object that cannot be deleted does not keep those on later pages from being deleted.
                failure = error
            if page[-1][0] >= trimmed.number:
                break
        if failure is not None:
            raise failure

    async def close(self) -> None:
        if not self._is_open:
            return
        await self._appending.finish()
        self._is_open = False
        held, self._held = self._held, None
        if held is None:
            return
        try:
            await held.change(lambda manifest: replace(self._ended(manifest), address=None))
        except JournalError as error:
            _log.info("%s: the leadership could not be released: %s", self.name, error)

    def abandon(self) -> None:
        """Make `close` leave the manifest unchanged."""
        self._held = None

    def _opened(self) -> HeldManifest:
        if self._held is None:
            raise JournalError("the journal is closed")
        return self._held


def _left(last: Mark, manifest: Manifest) -> Manifest:
    """Return the manifest that a leader leaves behind on closing, so that no other writer has to wait for the lease to
    end.
    """
    return replace(manifest, address=None, last=last)
