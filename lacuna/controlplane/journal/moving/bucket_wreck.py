"""A journal in the bucket that has lost objects or lacks records, for example after a restore to an earlier time.

Its appends stay in place, and the journal continues after the last of them; the manifest allows the deletion of
everything before that. The restart therefore takes effect with one conditional PUT, and an earlier leader that wakes up
finds the number of its next append taken.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.bucket_appends import (
    Append,
    Appends,
    encode_append,
)
from lacuna.controlplane.journal.bucket_calls import READ_THREADS, Bucket, random_id
from lacuna.controlplane.journal.bucket_manifest import (
    START,
    HeldManifest,
    Manifest,
    ManifestRenewer,
    Mark,
    decode_manifest,
    encode_manifest,
)
from lacuna.controlplane.journal.bucket_snapshots import BucketSnapshots
from lacuna.controlplane.journal.intact import Salvage, replayed
from lacuna.controlplane.journal.journal import (
    Fit,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    JournalFenced,
    JournalForeign,
    JournalInUse,
    JournalOfAnotherVersion,
    JournalUnfinished,
    Seal,
)
from lacuna.controlplane.journal.moving.beginning import Beginning
from lacuna.controlplane.journal.moving.holding import renewing, wait_for_silence
from lacuna.controlplane.journal.moving.wreck import newest_intact, nothing_intact
from lacuna.controlplane.journal.place import BUCKET
from lacuna.logstore.objects import ConditionalStore
from lacuna.logstore.segments.paths import (
    JOURNAL_MANIFEST_KEY,
    journal_append_key,
)

_ANSWER_SECONDS: Final = 10.0
_UNKNOWN: Final = Manifest(
    cluster_id="", epoch=0, writer="", address=None, changes=1, trimmed=START, last=START
)


@dataclass(slots=True)
class _Intact:
    """The consecutive records from `position` on, and what is known about later ones."""

    position: int
    reached: int
    problems: list[str]
    batches: list[JournalBatch] = field(default_factory=list)
    epoch: int = 0
    is_broken: bool = False

    def damaged(self, problem: str) -> None:
        self.problems.append(problem)
        self.is_broken = True

    def take(self, append: Append) -> None:
        header = append.header
        self.epoch = max(self.epoch, header.epoch)
        self.reached = max(self.reached, header.mark.position)
        if self.is_broken or header.mark.position <= self.position:
            return
        skipped = self.position + 1 - header.first_position
        if skipped < 0:
            self.damaged(
                f"positions {self.position + 1} to {header.first_position - 1} are missing before append "
                f"{header.number}"
            )
            return
        self.batches.append(JournalBatch(header.mark.position, append.records[skipped:]))
        self.position = header.mark.position


class BucketWreck:
    """The journal in `bucket`.

    Control planes are kept out because this process holds the manifest, or because it is missing or damaged. `etag` is
    that of a damaged manifest.
    """

    def __init__(
        self,
        bucket: Bucket,
        snapshots: BucketSnapshots,
        held: HeldManifest | None,
        etag: str | None,
        problems: list[str],
    ) -> None:
        self._bucket = bucket
        self._snapshots = snapshots
        self._held = held
        self._etag = etag
        self._problems = problems
        self._manifest = _UNKNOWN if held is None else held.manifest

    async def salvage(self) -> Salvage:
        name, manifest, problems = self._bucket.name, self._manifest, list(self._problems)
        cluster_id = manifest.cluster_id or None
        snapshot = await newest_intact(self._snapshots, cluster_id, self._fit, problems)
        intact = _Intact(0, manifest.last.position, problems, epoch=manifest.epoch)
        if snapshot is not None:
            intact.position = snapshot.position
            intact.reached = max(intact.reached, snapshot.position)
        await self._read(intact, manifest.trimmed.number)
        if snapshot is None and not intact.batches:
            raise nothing_intact(name, problems)
        if intact.position < intact.reached:
            problems.append(
                f"the readable part ends at position {intact.position}, but the journal reached {intact.reached}"
            )
        state, position = replayed(name, snapshot, intact.batches, problems)
        cluster_id = manifest.cluster_id or state.cluster_id
        return Salvage(name, cluster_id, intact.epoch, position, intact.reached, state, problems)

    async def _fit(self, _: int, seal: Seal) -> Fit:
        """Return whether a snapshot fits the journal, or why not. It fits unless another append has taken the place of
        the last one that it covers; a missing or damaged append may have been the right one.
        """
        try:
            header = await Appends(self._bucket).header_of(seal.place)
        except JournalCorrupt:
            return Fit.FITS
        return Fit.FITS if header is None or header.seal == seal else Fit.BESIDE

    async def _read(self, intact: _Intact, after_number: int) -> None:
        async for page in Appends(self._bucket).pages(after_number):
            for at in range(0, len(page), READ_THREADS):
                some = [each for each, _ in page[at : at + READ_THREADS]]
                read = await asyncio.gather(
                    *(Appends(self._bucket).read_head(each) for each in some),
                    return_exceptions=True,
                )
                for append in read:
                    _take(intact, append)

    async def begin(self, beginning: Beginning) -> str:
        """Store the snapshot, shut out appends after the last one, and record the beginning in the manifest."""
        await self._snapshots.store(beginning.snapshot, beginning.cluster_id)
        opening = await self._close(beginning)
        begun = replace(
            self._manifest,
            cluster_id=beginning.cluster_id,
            epoch=beginning.epoch,
            address=None,
            trimmed=opening,
            last=opening,
        )
        if self._held is not None:
            await self._held.change(lambda manifest: replace(begun, writer=manifest.writer))
            return ""
        data = encode_manifest(replace(begun, writer=random_id().hex()))
        if self._etag is None:
            await self._bucket.create(JOURNAL_MANIFEST_KEY, data)
        else:
            await self._bucket.replace(JOURNAL_MANIFEST_KEY, data, self._etag)
        found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
        if found is None or found.data != data:
            raise JournalFenced(
                f"{self._bucket.name}: another process has written {JOURNAL_MANIFEST_KEY}: start "
                "again"
            )
        return ""

    async def _close(self, beginning: Beginning) -> Mark:
        """Create an opening after the very last append, regardless of other writers."""
        while True:
            last = self._manifest.last.number
            async for page in Appends(self._bucket).pages(0):
                last = max(last, page[-1][0])
            after_mark = Mark(last, beginning.snapshot.position)
            opening, data = encode_append(after_mark, beginning.epoch, random_id(), ())
            if await self._bucket.create(journal_append_key(opening.number), data):
                return opening


def _take(intact: _Intact, append: Append | BaseException | None) -> None:
    if isinstance(append, JournalCorrupt):
        intact.damaged(str(append))
    elif isinstance(append, BaseException):
        raise append
    elif append is not None:
        intact.take(append)


@asynccontextmanager
async def bucket_wreck(
    store: ConditionalStore, name: str, lease: float, clock: Clock
) -> AsyncIterator[BucketWreck]:
    """Run the body while this process holds the journal. Raises JournalInUse and other JournalErrors."""
    bucket = Bucket(store, name, _ANSWER_SECONDS)
    snapshots = BucketSnapshots(store, BUCKET, name=name)
    found = await bucket.load(JOURNAL_MANIFEST_KEY)
    if found is None:
        if not [page async for page in Appends(bucket).pages(0)]:
            raise JournalError(
                f"{name}: there is no journal here, so nothing was lost: start without "
                "--accept-loss"
            )
        problem = f"{JOURNAL_MANIFEST_KEY} is missing"
        yield BucketWreck(bucket, snapshots, None, None, [problem])
        return
    try:
        decode_manifest(found.data)
    except (JournalOfAnotherVersion, JournalUnfinished):
        raise
    except (JournalCorrupt, JournalForeign) as error:
        yield BucketWreck(bucket, snapshots, None, found.etag, [str(error)])
        return
    reader = BucketJournal(store, str, name=name, clock=clock).reader()
    await wait_for_silence(reader, lease, clock)
    held = await _held(bucket)
    async with renewing(ManifestRenewer(held, lambda manifest: manifest), lease, clock):
        yield BucketWreck(bucket, snapshots, held, None, [])


async def _held(bucket: Bucket) -> HeldManifest:
    """Take the manifest over from a silent leader. Raises JournalInUse if it has changed in the meantime."""
    found = await bucket.load(JOURNAL_MANIFEST_KEY)
    if found is not None:
        before = decode_manifest(found.data)
        wanted = replace(
            before,
            epoch=before.epoch + 1,
            writer=random_id().hex(),
            address="",
            changes=before.changes + 1,
        )
        await bucket.replace(JOURNAL_MANIFEST_KEY, encode_manifest(wanted), found.etag)
        found = await bucket.load(JOURNAL_MANIFEST_KEY)
        if found is not None and decode_manifest(found.data) == wanted:
            return HeldManifest(bucket, wanted, found.etag)
    raise JournalInUse(
        f"another control plane has taken over {bucket.name}: stop all control planes, and start "
        "again"
    )
