"""The object store: one Protocol over S3, a directory and memory, and the faults to test against.

`S3Store` is imported from `logstore.objects.s3`, or opened by `open_store`: boto3 is slow to
import.
"""

from logstore.objects.directory import DirectoryStore
from logstore.objects.memory import MemoryStore
from logstore.objects.store import (
    BucketMissingError,
    InvalidKeyError,
    ObjectExistsError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    Part,
    ShortReadError,
    StoreMetrics,
    StoreMisconfiguredError,
    StoreUnavailableError,
)
from logstore.objects.url import open_store

__all__ = [
    "BucketMissingError",
    "DirectoryStore",
    "InvalidKeyError",
    "MemoryStore",
    "ObjectExistsError",
    "ObjectInfo",
    "ObjectNotFoundError",
    "ObjectStore",
    "ObjectStoreError",
    "Part",
    "ShortReadError",
    "StoreMetrics",
    "StoreMisconfiguredError",
    "StoreUnavailableError",
    "open_store",
]
