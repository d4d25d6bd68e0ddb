"""The machine and the versions behind a run's figures, without any names of hosts or people."""

import importlib.metadata
import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import confluent_kafka

from bench import clients, kafka, reading

TRIES = 3
SYNCS = 50
WRITE_BYTES = 256 << 20
SYNCED_BYTES = 1024
COPY_BYTES = 64 << 20
GIGABYTE = 1e9

#: The names of the speeds.
DISK: Final = "disk MB/s"
APPEND: Final = "append ms"
SYNC: Final = "sync ms"
COPY: Final = "copy GB/s"
FRESH_COPY: Final = "fresh copy GB/s"


def speeds() -> dict[str, float]:
    """Measures disk and memory several times. Returns the best results by name: other load can only slow them down.

    DISK is sequential writing with one fsync at the end. APPEND and SYNC are the time of an fdatasync after 1 KiB was
    written at the end of a file or within it, respectively. COPY copies memory into pages already in use, and
    FRESH_COPY into new ones.
    """
    with tempfile.TemporaryFile() as file:
        return {
            DISK: max(_written(file) for _ in range(TRIES)),
            APPEND: min(_synced(file, WRITE_BYTES) for _ in range(TRIES)),
            SYNC: min(_synced(file, 0) for _ in range(TRIES)),
            **_copies(),
        }


def machine(measured: Mapping[str, float]) -> dict[str, str]:
    """Describes the processor, memory, system and data disk by name, with the speeds that `speeds` measured."""
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    return {
        "processor": f"{os.cpu_count()} × {model.group(1) if model else platform.machine()}",
        "memory": f"{int(memory.group(1)) / (1 << 20):.1f} GiB" if memory else "unknown",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "data on": _file_system(tempfile.gettempdir()),
        "disk": (
            f"{measured[DISK]:,.0f} MB/s with fsync; append and fdatasync {measured[APPEND]:.2f} ms, "
            f"within the file {measured[SYNC]:.2f} ms"
        ),
        "copying memory": f"{measured[COPY]:.1f} GB/s, into new pages {measured[FRESH_COPY]:.1f} GB/s",
    }


def versions() -> dict[str, str]:
    """Returns the versions of Lacuna, Kafka, Python, Java and the client, by name."""
    return {
        "lacuna": importlib.metadata.version("lacuna-log"),
        "commit": _first_line(["git", "rev-parse", "--short", "HEAD"]),
        "kafka": kafka.version(),
        "python": platform.python_version(),
        "java": _first_line(["java", "-version"]),
        "confluent-kafka": str(confluent_kafka.version()),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def client_settings() -> dict[str, dict[str, object]]:
    """Returns the clients' settings that are common to all sections, by kind of client."""
    return {
        "producer": dict(clients.PRODUCER),
        "consumer": dict(reading.CONSUMER),
        "consumer, reading to the end": dict(reading.ENDS_SOON),
        "consumer, tuned": dict(reading.TUNED),
    }


def _first_line(command: list[str]) -> str:
    """Returns the first line that a command prints, or "none" if it is missing or fails."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    lines = (ran.stdout + ran.stderr).splitlines()
    return lines[0] if lines and not ran.returncode else "none"


def _file_system(path: str) -> str:
    """Returns the type of the file system that contains `path`. On tmpfs, an fsync costs nothing."""
    found = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1]


def _written(file: BinaryIO) -> float:
    """Overwrites the file with WRITE_BYTES, syncs it once, and returns the MB/s."""
    data = os.urandom(1 << 20)
    file.truncate(0)
    file.seek(0)
    started = time.perf_counter()
    file.writelines(data for _ in range(WRITE_BYTES // len(data)))
    file.flush()
    os.fsync(file.fileno())
    return WRITE_BYTES / (time.perf_counter() - started) / 1e6


def _synced(file: BinaryIO, offset: int) -> float:
    """Writes pieces one after another from `offset`, with an fdatasync after each. Returns the median in ms."""
    data = os.urandom(SYNCED_BYTES)
    file.truncate(WRITE_BYTES)
    os.fsync(file.fileno())
    times = []
    for index in range(SYNCS):
        started = time.perf_counter()
        os.pwrite(file.fileno(), data, offset + index * len(data))
        os.fdatasync(file.fileno())
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def _copies() -> dict[str, float]:
    source = bytes(COPY_BYTES)
    used = memoryview(bytearray(COPY_BYTES))
    seconds: dict[str, list[float]] = {COPY: [], FRESH_COPY: []}
    for _ in range(TRIES):
        started = time.perf_counter()
        used[:] = source
        copied = time.perf_counter()
        bytearray(source)
        seconds[COPY].append(copied - started)
        seconds[FRESH_COPY].append(time.perf_counter() - copied)
    return {name: COPY_BYTES / min(each) / GIGABYTE for name, each in seconds.items()}
