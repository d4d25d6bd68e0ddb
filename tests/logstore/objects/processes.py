"""Several processes on one file system in memory, each of which can be killed."""

from __future__ import annotations

from typing import Any

from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.background import AtOnce
from lacuna.logstore.objects.pack_puts import PackLimits
from tests.logstore.objects.unsynced import UnsyncedFileSystem

PACK_SIZE = 16 << 10
LIMITS = PackLimits(
    largest_object=3000, pack_size=PACK_SIZE, first_puts=0, move_after_s=1e9, background=AtOnce
)
FILES = PackLimits(largest_object=-1)


class Process:
    """A file system as one process sees it. A kill closes its open files."""

    def __init__(self, files: UnsyncedFileSystem) -> None:
        self._files = files
        self._fds: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def create(self, path: str) -> int:
        return self._opened(self._files.create(path))

    def open(self, path: str) -> int:
        return self._opened(self._files.open(path))

    def open_for_update(self, path: str) -> int:
        return self._opened(self._files.open_for_update(path))

    def close(self, fd: int) -> None:
        self._fds.discard(fd)
        self._files.close(fd)

    def kill(self) -> None:
        """Close everything, which releases all locks."""
        for fd in self._fds:
            self._files.close(fd)
        self._fds.clear()

    def _opened(self, fd: int) -> int:
        self._fds.add(fd)
        return fd


def opened(
    files: UnsyncedFileSystem | Process, limits: PackLimits = LIMITS, **options: Any
) -> DirectoryStore:
    """The store at /data."""
    return DirectoryStore("/data", file_system=files, packs=limits, **options)


def found(store: DirectoryStore) -> dict[str, bytes]:
    """Return every object of a store."""
    return {info.key: bytes(store.get_all(info.key)) for info in store.list()}


def payload(key: str, size: int) -> bytes:
    """Return bytes that are unique to the key."""
    return (key.encode() + b"|") * (size // (len(key) + 1) + 1)


def put_all(store: DirectoryStore, keys: str) -> None:
    """Put small objects c/KEY, six of which fill a pack."""
    for key in keys:
        store.put(f"c/{key}", [payload(key, 2000)])


def packs(files: UnsyncedFileSystem | Process) -> list[str]:
    """Return the names of the packs, except prepared empty ones, and of the deletions."""
    return sorted(
        name
        for name, _ in files.names("/data/.packs")
        if name != "locks" and not _is_empty(files, name)
    )


def _is_empty(files: UnsyncedFileSystem | Process, name: str) -> bool:
    fd = files.open(f"/data/.packs/{name}")
    content = bytearray(files.info_of(fd).size)
    files.read_into(fd, memoryview(content), 0)
    files.close(fd)
    return name.endswith(".pack") and not any(content[512:])
