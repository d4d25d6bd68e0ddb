"""Tests `lacuna up` with its console, and `lacuna console` by itself."""

import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from lacuna.base.errors import ListenError
from lacuna.cli.console_options import ConsoleOptions
from lacuna.cli.places import ConsoleVisitors
from lacuna.testing import ProcessCluster
from tests.forked import start_process
from tests.lacuna.conftest import Refusal, without_warnings
from tests.lacuna.console.conftest import SECONDS
from tests.lacuna.console.test_pages import plain


def test_a_taken_port_is_told_unless_it_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with ConsoleOptions(address=address, is_chosen=False).listening() as found:
            assert found == (None, "")
        assert f"no web console: the console cannot listen on {address}" in capsys.readouterr().err
        with (
            pytest.raises(ListenError, match="--no-console"),
            ConsoleOptions(address=address, is_chosen=True).listening(),
        ):
            pass
    with ConsoleOptions(address="", is_chosen=True).listening() as found:
        assert found == (None, "")


def test_names_of_hosts() -> None:
    assert ConsoleVisitors().names() == ()
    assert ConsoleVisitors(hosts="a.example, b.example,").names() == ("a.example", "b.example")


def test_what_is_refused(refused: Refusal) -> None:
    assert "is not an address: use HOST:PORT" in refused("up", "--console", "nowhere")
    assert "no cluster is running on" in refused("console", "--data", "nowhere")


@contextmanager
def running(*arguments: str, ready: str, lines: int = 1) -> Iterator[tuple[str, str]]:
    """Run a command that serves a console. Yield its first lines and the console's URL. Ctrl-C must end it cleanly."""
    command = [sys.executable, "-m", "lacuna", *arguments]
    process = start_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = "".join(process.stdout.readline() for _ in range(lines))
        found = re.search(rf"^{ready}(http\S+)$", said, re.MULTILINE)
        assert found is not None, said
        yield said, found[1]
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, without_warnings(err)) == (0, [])


def text(address: str) -> str:
    """Return the text of a page, including one that reports that the machine was too busy."""
    try:
        with urlopen(address, timeout=SECONDS) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        with error:
            return error.read().decode()


def shown(address: str, expected: str) -> str:
    """Return the text of a page once it matches `expected`. Agents report every three seconds."""
    ends = time.monotonic() + SECONDS
    while True:
        found = plain(text(address))
        if re.search(expected, found) or time.monotonic() > ends:
            assert re.search(expected, found)
            return found
        time.sleep(0.1)


def produce(bootstrap: str, client_id: str) -> Producer:
    """Return a producer that has written a record, so that it stays connected."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": client_id})
    producer.produce("t", b"x")
    assert producer.flush(SECONDS) == 0
    return producer


@pytest.mark.slow
def test_the_console_of_a_cluster_elsewhere(lacuna_process: ProcessCluster) -> None:
    arguments = ["console", "--listen", "127.0.0.1:0", "--data", str(lacuna_process.data)]
    arguments += ["--bootstrap", lacuna_process.bootstrap]
    with running(*arguments, ready="console: ") as (_, address):
        page = shown(address, re.escape(lacuna_process.bootstrap))
        assert "leader" in page
        produced = produce(lacuna_process.bootstrap, "far-away")
        assert "as with Kafka" in shown(f"{address}/clients", "far-away")
        shown(address, r"Connections [1-9]\d* of clients Requests [1-9]")
        shown(address, r"[1-9]\d* PUT")
        del produced
        # An open event stream does not keep it from ending.
        stream = http.client.HTTPConnection(address.removeprefix("http://"), timeout=SECONDS)
        stream.request("GET", "/live")
        assert stream.getresponse().readline() == b"event: tick\n"


@pytest.mark.slow
def test_the_console_of_workers_shows_each_of_them(tmp_path: Path) -> None:
    arguments = ["up", "--workers", "2", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    arguments += ["--console", "127.0.0.1:0"]
    with running(*arguments, ready="console ", lines=4) as (said, address):
        bootstrap = said.partition(": ")[2].partition("\n")[0]
        # Each has its own connection to the port that the workers share, and the kernel distributes them.
        producers = [produce(bootstrap, f"client-{number}") for number in range(16)]
        shown(address, "1 serving, in 2 processes")
        shown(address, r"serving \d+ [1-9]\d* \d+ .* serving \d+ [1-9]\d* \d+ ")
        shown(
            f"{address}/clients",
            r"confluent-kafka-python \S+-rdkafka-\S+ (1[6-9]|[2-9]\d) client-0",
        )
        assert len(producers) == 16
        for worker in ("1", "2", "controlplane"):
            shown(f"{address}/metrics", f'worker="{worker}"')
        shown(f"{address}/topics/t/0/messages", "offset 15|15 ")
