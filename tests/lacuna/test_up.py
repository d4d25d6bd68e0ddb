"""Tests `lacuna up` as a process: its start, its end, and its restart."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lacuna.agent.settings import AgentSettings
from lacuna.logstore.objects import folder_url
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster, ProcessCluster, ProcessFailedError
from tests.forked import ForkedCluster, Started, start_process
from tests.lacuna import clients
from tests.lacuna.conftest import without_warnings

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal

#: How long agents wait for clients that do not read their answers; there are none here.
GRACE_MS = 600_000
#: How long the consumer's fetch waits for records; librdkafka's maximum.
WAIT_MS = 300_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.slow
def test_a_second_start_goes_on_where_the_first_stopped(data: Path, lacuna: Command) -> None:
    """Records, outcomes, committed offsets and an open transaction survive a clean stop and SIGKILL."""
    with ForkedCluster(data) as up:
        committed = clients.transactional(up.bootstrap, "committed")
        clients.transact(committed, "t", ["c0", "c1"])
        aborted = clients.transactional(up.bootstrap, "aborted")
        clients.transact(aborted, "t", ["a2"], commits=False)
        clients.commit(up.bootstrap, "g", "t", 1)
        for end in (up.stop, up.kill):
            end()
            up.start()
            clients.send(clients.plain(up.bootstrap), "t", ["p"])
        ongoing = clients.opened(up.bootstrap, "ongoing", "t", ["o5"])
        up.restart()
        read = clients.consume(up.bootstrap, "t", 4)
        assert read == [(0, "c0"), (1, "c1"), (3, "p"), (4, "p")]
        consumer = Consumer({"bootstrap.servers": up.bootstrap, "group.id": "g"})
        assert consumer.committed([TopicPartition("t", 0)], 60)[0].offset == 1
        consumer.close()
        ongoing.commit_transaction(60)
        assert clients.consume(up.bootstrap, "t", 5)[4] == (5, "o5")
        rows = lacuna("explain", "t", "--data", str(data)).rows
        (what,) = [row[2] for row in rows[1:] if row[0] == "2"]
        assert what in ("dropped", "hole")  # merging may have removed it


def test_the_end_is_quick_with_consumers_connected(data: Path) -> None:
    """Fetches that wait for records do not delay the shutdown."""
    parts = AgentParts(agent=AgentSettings(shutdown_grace_ms=GRACE_MS))
    with Cluster(data, parts=parts) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["x"])
        consumer = Consumer(
            {
                "bootstrap.servers": up.bootstrap,
                "group.id": "g",
                "fetch.wait.max.ms": WAIT_MS,
                "socket.timeout.ms": WAIT_MS,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        assert consumer.poll(60) is not None
        consumer.poll(0.2)
        up.stop()  # it raises after a minute
        up.start()  # librdkafka's consumer waits long for a coordinator that is gone
        consumer.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_grpc_is_loaded_by_the_first_that_connects(data: Path, lacuna: Command) -> None:
    """Loading it takes time and memory, and nothing in `lacuna up` needs it."""
    with ProcessCluster(data) as up:

        def has_grpc() -> bool:
            return "cygrpc" in Path(f"/proc/{up.pid}/maps").read_text()

        status = ("controlplane", "status", "--control", (data / "control.address").read_text())
        assert not has_grpc()
        for _ in range(2):
            # On a busy machine, loading it can take longer than the command waits for an answer.
            deadline = time.monotonic() + 120
            while not (ran := lacuna(*status)).out.startswith("leader unix:"):
                assert time.monotonic() < deadline, ran
            assert has_grpc()


def start(*arguments: str) -> Started:
    return start_process(
        [sys.executable, "-m", "lacuna", "up", "--listen=127.0.0.1:0", "--no-console", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--workers", "2"), marks=pytest.mark.slow),
        pytest.param(("--moto",), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_signal_ends_it_cleanly(
    data: Path, number: signal.Signals, options: tuple[str, ...]
) -> None:
    process = start(*(() if "--moto" in options else ("--data", str(data))), *options)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("bootstrap: 127.0.0.1:")
    told = ["serves", "data", "try", "stop", *(["jobs"] if "--moto" in options else [])]
    said = dict(process.stdout.readline().split(maxsplit=1) for _ in told)
    assert list(said) == told
    assert str(data) in said["data"] or "--moto" in options
    process.send_signal(number)
    out, err = process.communicate(timeout=280)
    assert (process.returncode, out, without_warnings(err)) == (0, "", [])
    assert not (data / "control.address").exists()


#: Runs commands one after another in one process, as if a module were not installed.
WITHOUT = """
import sys
from lacuna.cli import main
for missing, *arguments in {runs}:
    sys.modules[missing] = None
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
"""


def without(folder: Path, *runs: tuple[str, ...]) -> tuple[list[str], str]:
    """Run commands, each without the module that is named first. Return their exit codes and the standard error."""
    command = [sys.executable, "-c", WITHOUT.format(runs=runs)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=True, cwd=folder
    )
    return done.stdout.split(), done.stderr


@pytest.mark.slow
def test_without_moto_one_line_says_what_to_install(tmp_path: Path) -> None:
    """The same applies to a package that moto's server needs."""
    codes, said = without(tmp_path, ("flask", "up", "--moto"), ("moto", "up", "--moto"))
    assert codes == ["1", "1"]
    line = "lacuna: --moto needs moto, an in-memory S3 server: pip install 'lacuna-log[moto]'\n"
    assert said == 2 * line


@pytest.mark.slow
def test_without_boto3_one_line_says_what_a_bucket_needs(tmp_path: Path) -> None:
    bucket = ("--bucket", "b", "--listen", "127.0.0.1:0")
    agent = ("boto3", "agent", "--control", "127.0.0.1:1", *bucket)
    codes, said = without(tmp_path, ("boto3", "up", *bucket), agent)
    assert codes == ["1", "1"]
    assert said == 2 * "lacuna: a bucket needs boto3: pip install 'lacuna-log[s3]'\n"


@pytest.mark.slow
def test_jobs_find_a_cluster_with_moto(lacuna: Command) -> None:
    """`lacuna up` prints what jobs need: the folder and the keys."""
    process = start("--moto")
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("bootstrap: ")
        said = [process.stdout.readline() for _ in range(5)][-1]
        found = re.fullmatch(r"jobs +compact, export and verify need --data (\S+) and (.+)\n", said)
        assert found is not None, said
        folder, keys = found.groups()
        environment = dict(each.split("=", 1) for each in keys.split())
        verified = lacuna("verify", "--data", folder, **environment)
        assert verified.code == 0, verified
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=280)
    assert not Path(folder).exists()


@pytest.mark.slow
def test_data_that_another_command_uses(data: Path, refused: Refusal) -> None:
    with ForkedCluster(data):
        for options in ((), ("--workers", "2")):
            listen = ("--listen", "127.0.0.1:0")
            said = refused("up", "--data", str(data), *listen, *options)
            assert said.startswith("another control plane is running on this data")


def test_a_start_that_fails_says_nothing_of_the_cluster_that_runs(
    data: Path, refused: Refusal
) -> None:
    """Jobs with that folder still find the running cluster's records."""
    with ForkedCluster(data):
        before = (data / "store.url").read_text()
        assert before == folder_url(data / "objects")
        bucket = ("--bucket", "another", "--endpoint", "http://127.0.0.1:1")
        refused(
            "up", "--data", str(data), "--listen", "127.0.0.1:0", *bucket,
            AWS_EC2_METADATA_DISABLED="true",
        )  # fmt: skip
        assert (data / "store.url").read_text() == before


def test_data_without_its_objects(data: Path) -> None:
    """A journal with records does not open a store that lacks them."""
    with ForkedCluster(data) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["x"])
        up.stop()
        (data / "objects").rename(data / "elsewhere")
        with pytest.raises(ProcessFailedError, match="expects its data there"):
            up.start()
        shutil.rmtree(data / "objects")
        (data / "elsewhere").rename(data / "objects")
        up.start()
        assert clients.consume(up.bootstrap, "t", 1) == [(0, "x")]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_objects_of_another_cluster(tmp_path: Path, refused: Refusal, workers: str) -> None:
    """The start fails, and the store information for jobs remains unchanged."""
    for name in ("one", "two"):
        with Cluster(tmp_path / name):
            pass
    objects = tmp_path / "two" / "objects"
    shutil.rmtree(objects)
    (tmp_path / "one" / "objects").rename(objects)
    (tmp_path / "two" / "store.url").write_text("file:///before")
    options = ("--listen", "127.0.0.1:0", "--workers", workers)
    said = refused("up", "--data", str(tmp_path / "two"), *options)
    assert said.startswith("the bucket prefix belongs to cluster ")
    assert (tmp_path / "two" / "store.url").read_text() == "file:///before"


@pytest.mark.slow
def test_buckets(tmp_path: Path, refused: Refusal) -> None:
    """Tests a missing bucket, its creation, and a second start on it."""
    from lacuna.operating.moto import CREDENTIALS, MotoServer

    with MotoServer() as moto, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        options = ["--bucket", "records/prefix", "--endpoint", moto.endpoint]
        arguments = ("--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", *options)
        said = refused("up", *arguments, **CREDENTIALS)
        assert said.startswith(f"bucket 'records' at {moto.endpoint} does not exist")
        assert "--create-bucket" in said
        with ForkedCluster(tmp_path / "d", [*options, "--create-bucket"]) as up:
            clients.send(clients.plain(up.bootstrap), "t", ["x"])
        with ForkedCluster(tmp_path / "d", options) as up:
            assert clients.consume(up.bootstrap, "t", 1) == [(0, "x")]
        assert not (tmp_path / "d" / "objects").exists()
    said = refused("up", *arguments, **CREDENTIALS)
    assert "check the endpoint, and that a server is running there" in said


def test_topics_are_not_made_by_themselves_where_that_is_off(data: Path) -> None:
    with ForkedCluster(data, ["--no-auto-create"]) as up:
        failed = threading.Event()

        def said(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.set()

        producer = clients.plain(up.bootstrap, **{"topic.metadata.propagation.max.ms": 100})
        producer.produce("t", b"x", on_delivery=said)
        producer.flush(60)
        assert failed.is_set()


def test_a_client_takes_the_printed_address_over_ipv6(data: Path, lacuna: Command) -> None:
    """librdkafka mistakes a bare ::1:PORT for a host name."""
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with ForkedCluster(data, ["--listen", "[::1]:0"]) as up:
        assert re.fullmatch(r"\[::1\]:[0-9]+", up.bootstrap)
        clients.send(clients.plain(up.bootstrap), "t", ["x"])
        assert clients.consume(up.bootstrap, "t", 1) == [(0, "x")]
        assert lacuna("groups", "list", "--bootstrap", up.bootstrap).code == 0


def test_a_folder_of_any_name(tmp_path: Path, lacuna: Command) -> None:
    """gRPC interprets a socket's path as part of a URL."""
    data = tmp_path / "with space" / "100%25" / "a?b#c&d" / "\u00fc\u2603"
    with ForkedCluster(data) as up:
        assert lacuna("topics", "create", "t", "--bootstrap", up.bootstrap).code == 0
        assert lacuna("explain", "t", "--data", str(data)).code == 0
