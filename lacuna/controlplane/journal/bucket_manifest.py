"""The manifest of a journal in the bucket, which names the leader and the appends that are kept.

It is the journal's only mutable object, and is changed only if it is still the version that was read. No two changes
write the same bytes: each contains its writer's random id, and increments the count of changes.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple
from zlib import crc32

from lacuna.controlplane.journal.bucket_calls import Bucket
from lacuna.controlplane.journal.formats import UNFINISHED, check_format, check_journal_format
from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalFenced,
    JournalForeign,
)
from lacuna.logstore.segments.paths import JOURNAL_MANIFEST_KEY

_FORMAT: Final = "lacuna journal"
_FORMAT_VERSION: Final = 1


class Mark(NamedTuple):
    """The journal's end after an append: the append's `number`, and the `position` of its last record."""

    number: int
    position: int


START: Final = Mark(0, 0)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of the journal as a whole.

    `writer` is the random id of the leader that wrote this. `address` is where it serves, or None once it has left.
    Each change increments `changes`. Appends up to `trimmed` may have been deleted. The append `last` was durable at
    the time of writing, and its object is kept, so that its loss is noticed. Appends up to number `moved` have no live
    hot segments.
    """

    cluster_id: str
    epoch: int
    writer: str
    address: str | None
    changes: int
    trimmed: Mark
    last: Mark
    moved: int = 0


def encode_manifest(manifest: Manifest, format_version: int | None = None) -> bytes:
    """Return the manifest as readable JSON, by default with the format version of this release."""
    version = _FORMAT_VERSION if format_version is None else format_version
    return encode_fields({"format": _FORMAT, "format_version": version, **asdict(manifest)})


def encode_fields(fields: dict[str, Any]) -> bytes:
    """Return fields as JSON with a checksum."""
    return json.dumps({**fields, "crc": _checksum(fields)}, indent=1).encode() + b"\n"


def _checksum(fields: dict[str, Any]) -> int:
    return crc32(json.dumps(fields).encode())


def decode_manifest(data: bytes) -> Manifest:
    """Decode the output of `encode_manifest`. Raises JournalForeign for other content, JournalOfAnotherVersion and
    JournalCorrupt.
    """
    try:
        fields: Any = json.loads(data)
        is_ours = fields["format"] == _FORMAT
    except (ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise JournalForeign(f"{JOURNAL_MANIFEST_KEY} is not the manifest of a Lacuna journal")
    version = fields.get("format_version")
    if version != UNFINISHED:
        check_format("the journal's format", version, _FORMAT_VERSION)
    try:
        if fields.pop("crc") != _checksum(fields):
            raise ValueError("the checksum is wrong")
        manifest = _checked(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise JournalCorrupt(
            f"{JOURNAL_MANIFEST_KEY} is damaged: restore it from a backup or an earlier version in the bucket"
        ) from error
    # This is checked only if the manifest is intact, since starting another copy would overwrite it.
    check_journal_format("the journal's format", version, _FORMAT_VERSION)
    return manifest


def _checked(fields: dict[str, Any]) -> Manifest:
    """Return the manifest after checking the types of its fields. Raises KeyError, TypeError and ValueError."""
    texts = [fields[name] for name in ("cluster_id", "writer")]
    moved = fields["moved"]
    numbers = [fields["epoch"], fields["changes"], *fields["trimmed"], *fields["last"], moved]
    address = fields["address"]
    if not all(isinstance(text, str) for text in [*texts, address or ""]):
        raise TypeError("a text field has the wrong type")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise TypeError("a number field has the wrong type")
    cluster_id, writer = texts
    trimmed, last = Mark(*fields["trimmed"]), Mark(*fields["last"])
    changes = fields["changes"]
    return Manifest(cluster_id, fields["epoch"], writer, address, changes, trimmed, last, moved)


async def load_manifest(bucket: Bucket) -> Manifest | None:
    """Return the manifest, or None if it does not exist. Raises the same errors as `decode_manifest`."""
    found = await bucket.load(JOURNAL_MANIFEST_KEY)
    return None if found is None else decode_manifest(found.data)


class HeldManifest:
    """The manifest as its leader holds it. The leader may change it from any event loop and thread.

    Of two concurrent changes, the bucket rejects one, which is then applied on top of the other.
    """

    def __init__(self, bucket: Bucket, manifest: Manifest, etag: str) -> None:
        self._bucket = bucket
        #: The last known manifest, with its ETag.
        self._known = (manifest, etag)
        self._knowing = threading.Lock()

    @property
    def manifest(self) -> Manifest:
        """The manifest as this leader last wrote or read it."""
        return self._known[0]

    async def change(self, change: Callable[[Manifest], Manifest]) -> None:
        """Replace the manifest with the result of `change`, which may be called more than once.

        Raises JournalFenced if another writer has taken over. Raises JournalUnreachable if it is unknown whether the
        manifest was changed; the next call will find out.
        """
        while not await self._change(change):
            pass

    async def confirm(self) -> None:
        """Make sure that this leader still holds the manifest, which a takeover changes before anything else. Raises
        JournalFenced and JournalUnreachable.
        """
        present = await load_manifest(self._bucket)
        if present is None or present.writer != self.manifest.writer:
            raise self._lost(present)

    async def _change(self, change: Callable[[Manifest], Manifest]) -> bool:
        before, etag_before = self._known
        wanted = replace(change(before), changes=before.changes + 1)
        etag = await self._bucket.replace(
            JOURNAL_MANIFEST_KEY, encode_manifest(wanted), etag_before
        )
        if etag is not None:
            self._know(wanted, etag)
            return True
        found = await self._bucket.load(JOURNAL_MANIFEST_KEY)
        present = None if found is None else decode_manifest(found.data)
        if found is None or present is None or present.writer != wanted.writer:
            raise self._lost(present)
        # This leader changed it, either in a concurrent change or in an attempt whose answer was lost.
        self._know(present, found.etag)
        return present == wanted

    def _know(self, manifest: Manifest, etag: str) -> None:
        with self._knowing:
            if manifest.changes > self._known[0].changes:
                self._known = (manifest, etag)

    def _lost(self, present: Manifest | None) -> JournalFenced:
        if present is None:
            what = "its manifest has been deleted"
        else:
            what = f"its epoch is now {present.epoch}, and this one's is {self.manifest.epoch}"
        return JournalFenced(
            f"another control plane has taken over the journal in {self._bucket.name} ({what}): "
            "this one is stepping down"
        )


class ManifestRenewer:
    """Renews a lease by replacing the manifest with the result of `change` and a higher count of changes."""

    def __init__(self, held: HeldManifest, change: Callable[[Manifest], Manifest]) -> None:
        self._held = held
        self._change = change

    async def renew(self) -> None:
        await self._held.change(self._change)

    async def close(self) -> None:
        """Do nothing: there is no connection to release, and the caller closes the store."""
