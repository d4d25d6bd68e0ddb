"""Conditional writes: create an object only if it does not exist, or replace it only if it has not changed.

A journal in the bucket needs both. In S3, the conditions are `If-None-Match: *` and `If-Match: <ETag>`, and S3 responds
with 412 if one fails. When a request that got no response is repeated, the repetition may fail because the first
attempt succeeded. Callers must therefore write bytes that no other writer would, and compare them with what is stored.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lacuna.logstore.objects.store import KeyedError, ObjectStore


class ConditionFailedError(KeyedError):
    """The object already exists, or is no longer the version to be replaced. This request wrote nothing."""

    def __str__(self) -> str:
        return f"object {self.key!r} already exists, or has changed since it was read"


@dataclass(frozen=True, slots=True)
class VersionedObject:
    """A whole object, with the ETag that distinguishes this version from others.

    An ETag can depend on the bytes alone, so writing earlier bytes again can restore an earlier ETag.
    """

    data: bytes
    etag: str


@runtime_checkable
class ConditionalStore(ObjectStore, Protocol):
    """A store in which some objects can change. Each call is one request if the store allows it.

    Every method may raise `StoreMisconfiguredError`, and `StoreUnavailableError`, for example because another request
    for the object is in progress. After `StoreUnavailableError`, the object may have been written, or may still be
    written later.
    """

    def load(self, key: str) -> VersionedObject:
        """Read the whole object and its current ETag. Raises `ObjectNotFoundError`."""

    def create(self, key: str, data: bytes) -> str:
        """Create the object and return its ETag. Raises `ConditionFailedError` if the object exists."""

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Replace the version of the object that has this ETag, and return the new ETag.

        Raises `ConditionFailedError` if the object has a different ETag, and `ObjectNotFoundError` if it does not
        exist.
        """
