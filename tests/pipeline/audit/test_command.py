"""Tests `lacuna verify` as a process: exit codes, output, and the report as JSON and as a page."""

import fcntl
import json
import os
import pty
import random
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import NoReturn

import pytest

from lacuna.pipeline.audit import AuditOptions, audit
from lacuna.pipeline.location import find_cluster
from tests.pipeline.audit.conftest import Bucket

Verify = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def verify(quick_python: str) -> Verify:
    """verify(bucket, *options): runs the command in a separate process. Without a bucket, the options name one."""

    def run(bucket: Bucket | None, *options: str) -> subprocess.CompletedProcess[str]:
        command = [quick_python, "-m", "lacuna", "verify", *options]
        if bucket is not None:
            command += ["--data", str(bucket.cluster.data)]
        return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    return run


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_spark_a_sound_bucket_with_its_keys(
    verify: Verify, bucket: Bucket, tmp_path: Path
) -> None:
    path = tmp_path / "sound.json"
    options = ("--master", "local[2]", "--conf", "spark.driver.memory=512m", "--keys")
    done = verify(bucket, *options, "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "# all is sound" in done.stdout
    report = json.loads(path.read_text())
    assert report["is_sound"]
    found = {(each["topic"], each["partition"]): each["keys"] for each in report["partitions"]}
    for name, records in bucket.committed.items():
        distinct = 20 if name[0] == "times" else 4
        assert found[name] == {"records": records, "null_keys": 0, "distinct_keys": distinct}


@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_byte_is_printed_with_its_place_and_what_to_do(
    verify: Verify, bucket: Bucket, seed: int
) -> None:
    rng = random.Random(seed)
    key = rng.choice(bucket.live_segments(rng.choice(("merged", "plain", "times"))))
    data = bytearray(bucket.store.get_all(key))
    position = rng.randrange(len(data))
    data[position] ^= 0x20
    before = bucket.replace(key, data)
    try:
        done = verify(bucket, "--no-spark")
    finally:
        bucket.replace(key, before)
    assert done.returncode == 1
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("# FOUND")]
    assert f"{key!r}, 1 byte at position {position}" in line
    assert "restore the object" in line


class _Page(HTMLParser):
    """Counts the open tags, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_without_spark_as_json_and_as_a_page(
    verify: Verify, bucket: Bucket, tmp_path: Path
) -> None:
    bucket.store.put("b.txt", [b"x"])
    try:
        page = tmp_path / "report.html"
        done = verify(bucket, "--no-spark", "--json", "--html", str(page))
    finally:
        bucket.store.delete(["b.txt"])
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["findings"][0]["key"] == "b.txt"
    assert report["findings"][0]["is_note"]
    parsed = _Page()
    parsed.feed(page.read_text())
    assert parsed.tags.count("svg") == len(report["partitions"])
    assert "script" not in parsed.tags
    assert "all is sound, 1 note" in parsed.text


@pytest.mark.slow
def test_on_a_terminal_there_are_tables_and_pictures(bucket: Bucket) -> None:
    """It needs its own Python, because the terminal's width is determined during an import."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    command = [sys.executable, "-m", "lacuna", "verify", "--no-spark"]
    command += ["--data", str(bucket.cluster.data)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment) as ran:
        os.close(theirs)
        shown = b""
        while more := _read(ours):
            shown += more
        assert ran.wait(280) == 0, ran.stderr.read() if ran.stderr else ""
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert "Partitions (numbers of offsets)" in text
    assert re.search(r"│ times +│ +0 │ 0-80 ", text)
    assert re.search(r"times \[0\] +█{64}\r", text)
    assert re.search(r"merged \[0\] +[█░]{40}\r", text)
    assert "all is sound" in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # its other end was closed
        return b""


WITHOUT_SPARK = (
    "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'pandas', 'numpy')));"
    "from lacuna.cli import main; main()"
)


@pytest.mark.slow
def test_a_small_bucket_needs_nothing_of_spark(bucket: Bucket) -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, "verify", "--data", str(bucket.cluster.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "# all is sound" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--spark", "--keys"])
def test_without_spark_one_line_says_what_to_install(bucket: Bucket, option: str) -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, "verify", option]
    command += ["--data", str(bucket.cluster.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 2
    assert done.stderr == "lacuna: this needs pyspark: pip install 'lacuna-log[spark]'\n"


@pytest.mark.slow
def test_spark_is_started_from_so_many_bytes_on(bucket: Bucket) -> None:
    location = find_cluster(data=str(bucket.cluster.data))
    size = audit(location, AuditOptions(), None).bytes_read

    class StartedError(Exception):
        pass

    def start() -> NoReturn:
        raise StartedError

    assert audit(location, AuditOptions(spark_from_bytes=2 * size), start).is_sound
    with pytest.raises(StartedError):
        audit(location, AuditOptions(spark_from_bytes=size // 2), start)
    with pytest.raises(StartedError):
        audit(location, AuditOptions(spark_from_bytes=2 * size, counts_keys=True), start)


def test_a_mistake_of_ours_is_no_damage(quick_python: str, bucket: Bucket) -> None:
    code = "import lacuna.pipeline.audit; lacuna.pipeline.audit.audit = None; from lacuna.cli import main; main()"
    command = [quick_python, "-c", code, "verify", "--no-spark"]
    command += ["--data", str(bucket.cluster.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 2
    assert "TypeError" in done.stderr


def test_from_a_snapshot_without_a_server(verify: Verify, bucket: Bucket) -> None:
    done = verify(None, "--no-spark", "--metadata", "bucket", "--store", bucket.cluster.store_url)
    assert done.returncode == 0, done.stderr
    assert "# all is sound" in done.stdout


def test_what_cannot_be_done_is_one_line_and_code_2(
    verify: Verify, bucket: Bucket, tmp_path: Path
) -> None:
    for options, reason in (
        (("--data", str(tmp_path)), "no cluster is running on the data folder"),
        (("--metadata", "journal"), "choose control or bucket"),
        (("--metadata-only", "--keys"), "omit --keys"),
        (("--no-spark", "--keys"), "--keys needs Spark"),
        (("--json", f"{tmp_path}/none-such/report.json"), "none-such does not exist"),
        (("--html", str(tmp_path)), "is a folder"),
        (("--nothing",), "No such option"),
    ):
        done = verify(None, *options)
        assert done.returncode == 2, (options, done.stderr)
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert reason in line
    done = verify(bucket, "--no-spark", "--topic", "nowhere")
    assert done.returncode == 2
    assert "there is no topic 'nowhere'" in done.stderr
    (tmp_path / "empty").mkdir()
    address = bucket.location.require_control().address
    done = verify(None, "--no-spark", "--control", address, "--store", f"file://{tmp_path}/empty")
    assert done.returncode == 2
    assert "specify the bucket that belongs to this control plane" in done.stderr
