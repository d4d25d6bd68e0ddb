"""The object store: one Protocol, with implementations for S3, a directory and memory.

`S3Store` is not exported, because importing boto3 is slow: import it from `lacuna.logstore.objects.s3`, or call
`open_store`.
"""

from lacuna.logstore.objects.conditional import (
    ConditionalStore,
    ConditionFailedError,
    VersionedObject,
)
from lacuna.logstore.objects.directory import DirectoryStore, folder_url
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.s3_kind import bucket_url
from lacuna.logstore.objects.store import (
    BucketMissingError,
    DamagedObjectError,
    InvalidKeyError,
    NotDeletedError,
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
from lacuna.logstore.objects.url import check_url, kind_of, open_conditional_store, open_store

__all__ = [
    "BucketMissingError",
    "ConditionFailedError",
    "ConditionalStore",
    "DamagedObjectError",
    "DirectoryStore",
    "InvalidKeyError",
    "MemoryStore",
    "NotDeletedError",
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
    "VersionedObject",
    "bucket_url",
    "check_url",
    "folder_url",
    "kind_of",
    "open_conditional_store",
    "open_store",
]
