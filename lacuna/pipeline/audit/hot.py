"""Copies hot segments to a temporary folder on this machine, so that an audit can check them like other objects."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from tempfile import TemporaryDirectory
from typing import Self

from lacuna.logstore.objects import ObjectNotFoundError, ObjectStore, folder_url, open_store
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.pipeline.audit.inventory import UNKNOWN_SIZE, Inventory
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.hot import HotCopy, beneath_encryption, hot_named_in, put_into, with_copies
from lacuna.pipeline.stores import has_object


class HotCopies:
    """Temporary copies of hot segments, as a context manager.

    `store` reads the copies, and decrypts them as `bucket` would. With `fills_bucket`, hot segments that are only in
    the journal are copied to the bucket as well.
    """

    def __init__(self, bucket: ObjectStore, *, fills_bucket: bool = False) -> None:
        self._bucket = beneath_encryption(bucket)
        self._exits = ExitStack()
        folder = self._exits.enter_context(TemporaryDirectory(prefix="lacuna-verify-"))
        self._copies = open_store(folder_url(folder))
        self._exits.callback(self._copies.close)
        self._also = put_into(bucket) if fills_bucket else None
        self.store = self._copies
        if isinstance(bucket, EncryptedStore):
            self.store = bucket.around(self._copies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def logs(
        self, control: JobClient, read: Callable[[], list[PartitionLog]], inventory: Inventory
    ) -> list[PartitionLog]:
        """Calls `read`, copies all hot segments that the returned logs refer to, and returns the logs.

        If a job has put a segment into the bucket, the copy is made from there, because that is what jobs read. The
        journal's version is read too, since the journal checks the bytes it returns.
        """
        logs = with_copies(control, self._put, read, hot_named_in)
        for lease_id, sequence in set(hot_named_in(logs)):
            key = key_in_lease(control.cluster_id, lease_id, sequence)
            is_listed = inventory.segments.size_of(lease_id, sequence) != UNKNOWN_SIZE
            if is_listed or not has_object(self._copies, key):
                self._copy(key)
        return logs

    def _put(self, copy: HotCopy) -> None:
        self._copies.put(copy.key, [copy.data])
        if self._also is not None:
            self._also(copy)

    def _copy(self, key: str) -> None:
        with suppress(ObjectNotFoundError):
            data = self._bucket.get_all(key)
            self._copies.delete([key])
            self._copies.put(key, [data])
