"""Objects that change under a condition: created only where there is none, replaced only as they were read.

A journal in the bucket needs both, and S3 answers both with 412 (`If-None-Match: *`, `If-Match: <ETag>`). Whoever
repeats a request that was not answered may be refused because of its own first attempt. So a caller writes bytes that
nobody else writes, and compares what it finds with them.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lacuna.logstore.objects.store import ObjectStore, ObjectStoreError


class ConditionFailedError(ObjectStoreError):
    """The object is there already, or is another than the one that was to be replaced. This request wrote nothing."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"object {self.key!r} is not in the state on which the request was conditional"


@dataclass(frozen=True, slots=True)
class VersionedObject:
    """A whole object, and the ETag by which the store tells it from what it was before and will be later.

    The ETag may depend on the bytes alone: an object that is written with earlier bytes has the earlier ETag again.
    """

    data: bytes
    etag: str


@runtime_checkable
class ConditionalStore(ObjectStore, Protocol):
    """A store in which some objects change. Each call is one request, as far as the store can help it.

    Every method may raise `StoreUnavailableError`, also where another request for the object was under way, and
    `StoreMisconfiguredError`. After `StoreUnavailableError` the object may have been written, or may be later.
    """

    def load(self, key: str) -> VersionedObject:
        """Read the whole object, and what it was written as last. Raises `ObjectNotFoundError`."""

    def create(self, key: str, data: bytes) -> str:
        """Create the object and return its ETag. Raises `ConditionFailedError` if there is one."""

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Replace the object that has this ETag, and return the new one.

        Raises `ConditionFailedError` if it has another, and `ObjectNotFoundError` if there is no object.
        """
