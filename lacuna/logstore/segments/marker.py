"""The marker object, which names the cluster that a bucket prefix belongs to.

The journal names its cluster as well. Control planes and agents compare the two names when they start, so that a
journal is never used with a different cluster's bucket.

The marker is never encrypted. If the other objects are encrypted, an object for each key indicates this, so that a
process without the right keys finds out immediately, instead of reading bytes that look damaged.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from lacuna.logstore.objects import (
    DamagedObjectError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectStore,
    StoreMisconfiguredError,
)
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.segments.paths import (
    CLUSTER_MARKER_KEY,
    ENCRYPTION_PREFIX,
    InvalidPathError,
    check_cluster_id,
)

MARKER_VERSION = 1
_MAX_MARKER_SIZE = 4096
_MOST_KEYS = 1000
_ENCRYPTION_TEXT = b"the objects of this cluster are encrypted\n"


class ForeignStoreError(Exception):
    """The bucket prefix belongs to a different cluster, or is not Lacuna's."""


@dataclass(frozen=True, slots=True)
class ClusterMarker:
    """The cluster that a bucket prefix belongs to, and the version of its key layout (see `paths`)."""

    cluster_id: str
    version: int = MARKER_VERSION

    def encode(self) -> bytes:
        return json.dumps({"cluster_id": self.cluster_id, "version": self.version}).encode() + b"\n"


def read_marker(store: ObjectStore) -> ClusterMarker | None:
    """Return the marker of the prefix, or None if there is none yet.

    Raises `ForeignStoreError`, and `StoreMisconfiguredError` if the store was opened with missing or wrong keys.
    """
    try:
        if store.size(CLUSTER_MARKER_KEY) > _MAX_MARKER_SIZE:
            raise _not_ours("it is too large")
        marker = decode_marker(bytes(store.get_all(CLUSTER_MARKER_KEY)))
    except ObjectNotFoundError:
        marker = None
    check_encryption(store, is_new=marker is None)
    return marker


def claim_store(store: ObjectStore, cluster_id: str) -> ClusterMarker:
    """Claim the prefix for `cluster_id`, unless it has already been claimed, and return its marker.

    If two clusters claim the prefix at the same time, only one of them succeeds. Raises `ForeignStoreError` if the
    prefix belongs to a different cluster.
    """
    own = ClusterMarker(check_cluster_id(cluster_id))
    found = read_marker(store)
    if isinstance(store, EncryptedStore) and found in (None, own):
        # Written before the marker: a prefix with only a marker was in use before its objects were encrypted.
        with suppress(ObjectExistsError):
            store.put(f"{ENCRYPTION_PREFIX}{store.keys.now().current}", [_ENCRYPTION_TEXT])
    if found is None:
        try:
            store.put(CLUSTER_MARKER_KEY, [own.encode()])
        except ObjectExistsError:
            found = read_marker(store)
        else:
            return own
    check_marker(found, cluster_id)
    return own


def check_marker(found: ClusterMarker | None, cluster_id: str) -> None:
    """Raise `ForeignStoreError` unless there is a marker that names `cluster_id`."""
    if found is None:
        raise ForeignStoreError(
            f"the bucket prefix has no {CLUSTER_MARKER_KEY}, so it is empty or has been wiped, but "
            f"the journal of cluster {cluster_id} expects its data there: specify the right "
            "prefix, or start with a new journal"
        )
    if found.cluster_id != cluster_id:
        raise ForeignStoreError(
            f"the bucket prefix belongs to cluster {found.cluster_id}, but the journal belongs to "
            f"{cluster_id}: specify the prefix that belongs to this journal, or an empty one with "
            "a new journal"
        )


def check_encryption(store: ObjectStore, *, is_new: bool = False) -> None:
    """Raise `StoreMisconfiguredError` unless the store was opened with the keys that its objects need, and no others.

    `is_new` means that the prefix has no marker.
    """
    listed = islice(store.list(ENCRYPTION_PREFIX), _MOST_KEYS)
    key_ids = [info.key.removeprefix(ENCRYPTION_PREFIX) for info in listed]
    if not isinstance(store, EncryptedStore):
        if key_ids:
            raise StoreMisconfiguredError(
                f"the objects of this cluster are encrypted, with key {', '.join(key_ids)}: "
                "specify the file with the cluster's keys (--encryption-keys, or "
                "LACUNA_ENCRYPTION_KEYS)"
            )
        return
    keys = store.keys.now()
    if not key_ids and not is_new and not keys.reads_plaintext:
        raise StoreMisconfiguredError(
            "the objects of this cluster are not encrypted: to encrypt new ones, set plaintext = "
            '"read" in the file with the keys as long as unencrypted objects remain; otherwise, '
            "omit the keys"
        )
    for key_id in keys.keys.keys() & set(key_ids):
        try:
            store.get_all(f"{ENCRYPTION_PREFIX}{key_id}")
        except DamagedObjectError as error:
            raise StoreMisconfiguredError(
                f"key {key_id!r} is not the key that encrypted this cluster's objects under this id: "
                f"restore that key, and give the new one a different id ({error})"
            ) from error


def decode_marker(text: bytes) -> ClusterMarker:
    """Decode a marker. Raises `ForeignStoreError`."""
    try:
        fields = json.loads(text)
        marker = ClusterMarker(check_cluster_id(fields["cluster_id"]), int(fields["version"]))
    except (ValueError, KeyError, TypeError, InvalidPathError) as error:
        raise _not_ours(repr(error)) from error
    if marker.version != MARKER_VERSION:
        raise ForeignStoreError(
            f"the bucket prefix was written with key layout {marker.version}, but this program "
            f"supports {MARKER_VERSION}: use the version of lacuna that wrote it"
        )
    return marker


def _not_ours(reason: str) -> ForeignStoreError:
    return ForeignStoreError(
        f"{CLUSTER_MARKER_KEY} in the bucket prefix cannot be read as Lacuna's marker ({reason}), "
        "so nothing was changed. If this prefix belongs to Lacuna, start again, in case the store "
        "returned a bad response only once. If that does not help, restore the object from a "
        "backup. If the prefix does not belong to Lacuna, specify a different one"
    )
