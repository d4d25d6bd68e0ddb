"""The marker object that says which cluster a bucket prefix belongs to.

A journal names its cluster too. Control planes and agents compare the two when they start, so that a
journal is never used with the bucket of another cluster.

The marker itself is never encrypted. If other objects are, an object for each key says so: whoever comes without the
keys, or with others, learns it at once, and not from bytes that look damaged.
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
    """The bucket prefix belongs to another cluster, or to something that is not Lacuna."""


@dataclass(frozen=True, slots=True)
class ClusterMarker:
    """The cluster to which a bucket prefix belongs, and the version of the key layout in `paths`."""

    cluster_id: str
    version: int = MARKER_VERSION

    def encode(self) -> bytes:
        return json.dumps({"cluster_id": self.cluster_id, "version": self.version}).encode() + b"\n"


def read_marker(store: ObjectStore) -> ClusterMarker | None:
    """The marker of the prefix, or None if there is none yet.

    Raises `ForeignStoreError`, and `StoreMisconfiguredError` if the store is opened without the keys, or with others.
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
    """Claim the prefix for `cluster_id` unless it is claimed already; return its marker.

    If two clusters claim it at once, one succeeds. Raises `ForeignStoreError` if another cluster has it.
    """
    own = ClusterMarker(check_cluster_id(cluster_id))
    found = read_marker(store)
    if isinstance(store, EncryptedStore) and found in (None, own):
        # Before the marker: a prefix that has only that was in use before its objects were encrypted.
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
    """Raise `ForeignStoreError` unless a marker was found and names `cluster_id`."""
    if found is None:
        raise ForeignStoreError(
            f"the bucket prefix has no {CLUSTER_MARKER_KEY}: it is empty or was wiped, and "
            f"the journal of cluster {cluster_id} expects its data there: name the right prefix, "
            "or start with a new journal"
        )
    if found.cluster_id != cluster_id:
        raise ForeignStoreError(
            f"the bucket prefix belongs to cluster {found.cluster_id}, the journal to "
            f"{cluster_id}: name the prefix that goes with this journal, or an empty one with a "
            "new journal"
        )


def check_encryption(store: ObjectStore, *, is_new: bool = False) -> None:
    """Raise `StoreMisconfiguredError` unless the store has the keys that are needed, and none that are not.

    `is_new` says that the prefix has no marker.
    """
    listed = islice(store.list(ENCRYPTION_PREFIX), _MOST_KEYS)
    key_ids = [info.key.removeprefix(ENCRYPTION_PREFIX) for info in listed]
    if not isinstance(store, EncryptedStore):
        if key_ids:
            raise StoreMisconfiguredError(
                f"the objects of this cluster are encrypted, with key {', '.join(key_ids)}: name the file with its "
                "keys (--encryption-keys, or LACUNA_ENCRYPTION_KEYS)"
            )
        return
    keys = store.keys.now()
    if not key_ids and not is_new and not keys.reads_plaintext:
        raise StoreMisconfiguredError(
            'the objects of this cluster are not encrypted: to encrypt those to come, write plaintext = "read" into '
            "the file with the keys until no unencrypted object is left; or leave the keys out"
        )
    for key_id in keys.keys.keys() & set(key_ids):
        try:
            store.get_all(f"{ENCRYPTION_PREFIX}{key_id}")
        except DamagedObjectError as error:
            raise StoreMisconfiguredError(
                f"key {key_id!r} is not the one with which objects of this cluster were encrypted: was it made anew? "
                f"Take the earlier one, and give a new key another id ({error})"
            ) from error


def decode_marker(text: bytes) -> ClusterMarker:
    """Return the marker that an object holds. Raises `ForeignStoreError`."""
    try:
        fields = json.loads(text)
        marker = ClusterMarker(check_cluster_id(fields["cluster_id"]), int(fields["version"]))
    except (ValueError, KeyError, TypeError, InvalidPathError) as error:
        raise _not_ours(repr(error)) from error
    if marker.version != MARKER_VERSION:
        raise ForeignStoreError(
            f"the bucket prefix was written with key layout {marker.version}, this program knows "
            f"{MARKER_VERSION}: use the version of lacuna that wrote it"
        )
    return marker


def _not_ours(reason: str) -> ForeignStoreError:
    return ForeignStoreError(
        f"{CLUSTER_MARKER_KEY} in the bucket prefix cannot be read as Lacuna's ({reason}), so nothing was changed: "
        "start again if this prefix is Lacuna's, since the store may have answered wrongly once; restore the "
        "object from a backup if that does not help; name another prefix if it is not"
    )
