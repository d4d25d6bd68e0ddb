"""Objects that change conditionally: created only if they do not exist, replaced only if they have not changed.

A journal in the bucket needs both conditions, and S3 answers both failures with 412 (`If-None-Match: *`, `If-Match:
<ETag>`). A retry of an unanswered request may be rejected because of its own first attempt. So a caller writes bytes
that no other writer writes, and compares them with what it finds.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lacuna.logstore.objects.store import KeyedError, ObjectStore


class ConditionFailedError(KeyedError):
    """The object already exists, or differs from the one to be replaced. This request wrote nothing."""

    def __str__(self) -> str:
        return f"object {self.key!r} is not in the state on which the request was conditional"


@dataclass(frozen=True, slots=True)
class VersionedObject:
    """A whole object, and the ETag that distinguishes it from earlier and later versions.

    The ETag may depend only on the bytes, so an object rewritten with earlier bytes has the earlier ETag again.
    """

    data: bytes
    etag: str


@runtime_checkable
class ConditionalStore(ObjectStore, Protocol):
    """A store in which some objects change. Each call is one request, as far as the store allows it.

    Every method may raise `StoreUnavailableError`, also if another request for the object was under way, and
    `StoreMisconfiguredError`. After `StoreUnavailableError`, the object may have been written, or may be later.
    """

    def load(self, key: str) -> VersionedObject:
        """Read the whole object and the ETag of its last write. Raises `ObjectNotFoundError`."""

    def create(self, key: str, data: bytes) -> str:
        """Create the object and return its ETag. Raises `ConditionFailedError` if it exists."""

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Replace the object that has this ETag, and return the new ETag.

        Raises `ConditionFailedError` if it has another, and `ObjectNotFoundError` if it does not exist.
        """
