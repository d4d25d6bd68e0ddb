"""Facts about the machine and the versions, so that figures can be compared. They name no hosts or people."""

import importlib.metadata
import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import confluent_kafka

from bench import clients, kafka, reading

SYNCS = 50
WRITE_BYTES = 256 << 20
COPY_BYTES = 64 << 20
GIGABYTE = 1e9


def machine() -> dict[str, str]:
    """The processor, memory, system, and the disk under the data with its speed when synced, as text by name."""
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    return {
        "processor": f"{os.cpu_count()} × {model.group(1) if model else platform.machine()}",
        "memory": f"{int(memory.group(1)) / (1 << 20):.1f} GiB" if memory else "unknown",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "data on": _file_system(tempfile.gettempdir()),
        "disk": _disk(),
        "copying memory": f"{_copying():.1f} GB/s",
    }


def versions() -> dict[str, str]:
    """The versions of Lacuna, Kafka, Python, Java and the client, by name."""
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
    """The settings that the clients of all sections share, by kind of client."""
    return {
        "producer": dict(clients.PRODUCER),
        "consumer": dict(reading.CONSUMER),
        "consumer, reading to the end": dict(reading.ENDS_SOON),
        "consumer, tuned": dict(reading.TUNED),
    }


def _first_line(command: list[str]) -> str:
    """The first line that a command prints, or "none" if the command is missing or fails."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    lines = (ran.stdout + ran.stderr).splitlines()
    return lines[0] if lines and not ran.returncode else "none"


def _file_system(path: str) -> str:
    """The type of the file system that `path` is on; on tmpfs, an fsync costs nothing."""
    found = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1]


def _disk() -> str:
    """The speed of sequential writing with one fsync, and the time of a small append with fdatasync, as text."""
    data = os.urandom(1 << 20)
    with tempfile.TemporaryFile() as file:
        started = time.perf_counter()
        for _ in range(WRITE_BYTES // len(data)):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
        rate = WRITE_BYTES / (time.perf_counter() - started) / 1e6
        times = []
        for _ in range(SYNCS):
            started = time.perf_counter()
            os.write(file.fileno(), data[:1024])
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return (
        f"{rate:,.0f} MB/s with fsync; append and fdatasync {statistics.median(times) * 1e3:.2f} ms"
    )


def _copying() -> float:
    source = bytes(COPY_BYTES)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        bytearray(source)
        times.append(time.perf_counter() - started)
    return COPY_BYTES / min(times) / GIGABYTE
