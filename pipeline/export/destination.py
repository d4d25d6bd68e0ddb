"""Where exported files go: a directory or an S3 prefix, behind one Protocol.

Names are `/`-separated and relative to the destination. What begins with `_` is hidden from Spark,
Hive, Trino and pyarrow: state is under `_lacuna/`, unfinished files under `_staging/`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import pyarrow as pa


class Move(NamedTuple):
    """A finished file's hidden name, and the name that readers see; `size` in bytes."""

    staged: str
    final: str
    size: int


class Destination(Protocol):
    """All methods raise DestinationError with what to do."""

    @property
    def url(self) -> str:
        """What `open_destination` takes, complete: executors open it with it."""
        ...

    def check(self) -> None:
        """Makes sure that it can be written to; makes the folder where that is missing."""
        ...

    def uri(self, name: str) -> str:
        """The name as others know it: an absolute path, or s3://BUCKET/KEY."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Creates a small object, whole and durable. Raises NameTakenError where it is there."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small object's bytes, None where it is not there."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Names of all objects below the folder `prefix`, sorted."""
        ...

    def create(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """A data file to write; whole and durable behind the block, of no use if that fails."""
        ...

    def publish(self, moves: Sequence[Move], staging: str, folder: str) -> None:
        """Gives files of the folder `staging` their names in `folder`, which readers see.

        In a directory all at once. Doing it again after it was interrupted, wherever, ends the same.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes these; one that is not there is no error."""
        ...

    def delete_folder(self, prefix: str) -> None:
        """Deletes everything below; nothing there is no error."""
        ...

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Held for the block. Raises ExportRunningError where another process holds it."""
        ...
