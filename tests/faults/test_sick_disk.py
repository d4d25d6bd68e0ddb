"""Tests a disk that fails during writes and reads."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.filesystem import FileRanges, OsFileSystem
from lacuna.logstore.objects.store import Part, WritableBuffer
from lacuna.testing import Cluster
from tests.clients.batch import batch
from tests.clients.hurry import keep_leases
from tests.clients.librd import producer, read, send
from tests.clients.probing import Target, error_name


class SickDisk(OsFileSystem):
    """A file system on which every write, open and read fails with `errno`, unless that is 0.

    It recovers after `failures` failed calls, unless that is None.
    """

    def __init__(self) -> None:
        self.errno = 0
        self.failures: int | None = None

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        self._fail()
        super().write(fd, parts)

    def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
        self._fail()
        super().write_at(fd, parts, position)

    def read_ranges(self, ranges: FileRanges, buffer: WritableBuffer) -> Sequence[int]:
        if self.errno:
            return [-self.errno] * len(ranges.sizes)
        return super().read_ranges(ranges, buffer)

    def open(self, path: str) -> int:
        self._fail()
        return super().open(path)

    def _fail(self) -> None:
        if not self.errno:
            return
        error = OSError(self.errno, errno.errorcode[self.errno])
        if self.failures is not None:
            self.failures -= 1
            if not self.failures:
                self.errno = 0
        raise error


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left below"), (errno.EACCES, "give this user permission")],
)
def test_a_sick_disk_is_said_and_outlived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, message: str
) -> None:
    """S2: retriable errors name the problem. After the disk recovers, all requests succeed."""
    disk, data = SickDisk(), tmp_path / "lacuna"

    def open_store() -> DirectoryStore:
        return DirectoryStore(data / "objects", file_system=disk)

    with Cluster(data, open_store=open_store) as cluster:
        keep_leases(cluster)
        topic, raw = cluster.create_topic("t"), Target(cluster.bootstrap)
        assert raw.verdict(topic, batch([b"raw"])) == "NONE"
        disk.errno = number
        assert raw.verdict(topic, batch([b"lost"])) == "KAFKA_STORAGE_ERROR"
        assert message in caplog.text
        if number == errno.EACCES:
            assert error_name(raw.fetch(topic, 0)["error_code"]) == "KAFKA_STORAGE_ERROR"
        disk.failures = 3
        who = producer(cluster.bootstrap, enable_idempotence=True)
        assert send(who, topic, [b"patient"]) == [1]
        assert disk.errno == 0, "it was mended while the client tried again"
        assert read(cluster.bootstrap, topic).offsets[-1:] == [1]
