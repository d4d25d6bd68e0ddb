"""Runs SQLite on an `UnsyncedFileSystem` through APSW, to test what remains of a database after a crash.

There is no shared memory, so a database in WAL mode needs `PRAGMA locking_mode=EXCLUSIVE` before anything else.
"""

import apsw

from tests.logstore.objects.unsynced import UnsyncedFileSystem


class UnsyncedVfs(apsw.VFS):
    """Registers itself as `name`: `apsw.Connection("/j.db", vfs=name)`. Keep a reference to the object while it is in
    use.
    """

    def __init__(self, name: str, files: UnsyncedFileSystem) -> None:
        self.files = files
        super().__init__(name, "")

    def xOpen(self, name: object, flags: list[int]) -> "UnsyncedFile":  # type: ignore[override]  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        flags[1] = flags[0]
        return UnsyncedFile(self.files, path)

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        try:
            self.files.info(pathname)
        except FileNotFoundError:
            return False
        return True

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.files.unlink(filename)
        if syncdir:
            self.files.fsync_directory("/")


class UnsyncedFile:
    """An SQLite file in the root directory. The first sync of a new file also syncs its name, as in SQLite's unix
    layer.
    """

    def __init__(self, files: UnsyncedFileSystem, path: str) -> None:
        self.files = files
        self.path = path
        self.fd = files.open_or_create(path)
        self.is_name_synced = False

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        buffer = bytearray(amount)
        return bytes(buffer[: self.files.read_into(self.fd, memoryview(buffer), offset)])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.files.write_at(self.fd, [data], offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self.files.truncate(self.fd, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.files.fsync(self.fd)
        if not self.is_name_synced:
            self.files.fsync_directory("/")
            self.is_name_synced = True

    def xFileSize(self) -> int:  # noqa: N802
        return self.files.info_of(self.fd).size

    def xClose(self) -> None:  # noqa: N802
        self.files.close(self.fd)

    def xLock(self, level: int) -> None:  # noqa: N802
        """Do nothing: a single process with one connection needs no lock."""

    xUnlock = xLock  # noqa: N815

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return 4096

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0
