"""Conditional writes of objects: an object is created only if it does not exist, and replaced only if it has not
changed.

A journal in the bucket needs both conditions (in S3, `If-None-Match: *` and `If-Match: <ETag>`). S3 responds with 412
if either of them fails. A retry of an unanswered request may be rejected because its own first attempt succeeded. So a
caller writes bytes that no other writer writes, and compares them with what it finds.
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
    """A store in which some objects change. Each call is one request where the store allows that.

    Every method may raise `StoreMisconfiguredError` and `StoreUnavailableError`, the latter also if another request for
    the object was under way. After `StoreUnavailableError`, the object may have been written, or may be written later.
    """

    def load(self, key: str) -> VersionedObject:
        """Read the whole object and the ETag of its last write. Raises `ObjectNotFoundError`."""

    def create(self, key: str, data: bytes) -> str:
        """Create the object and return its ETag. Raises `ConditionFailedError` if it exists."""

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Replace the object that has this ETag, and return the new ETag.

        Raises `ConditionFailedError` if it has another, and `ObjectNotFoundError` if it does not exist.
        """
