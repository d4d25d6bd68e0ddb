"""`lacuna up` with its console, and `lacuna console` by itself."""

import http.client
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from lacuna.cli.console_options import Wanted, host_names
from lacuna.errors import ListenError
from lacuna.testing import ProcessCluster
from tests.lacuna.conftest import Refusal
from tests.lacuna.console.conftest import SECONDS


def wanted(address: str, *, is_chosen: bool) -> Wanted:
    """A console at an address."""
    return Wanted(address=address, is_chosen=is_chosen, names=(), may_write=False)


def test_a_taken_port_is_told_unless_it_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with wanted(address, is_chosen=False).listening() as found:
            assert found == (None, "")
        assert f"no web console: the console cannot listen on {address}" in capsys.readouterr().err
        with (
            pytest.raises(ListenError, match="--no-console"),
            wanted(address, is_chosen=True).listening(),
        ):
            pass
    with wanted("", is_chosen=True).listening() as found:
        assert found == (None, "")


def test_names_of_hosts() -> None:
    assert host_names("") == ()
    assert host_names("a.example, b.example,") == ("a.example", "b.example")


def test_what_is_refused(refused: Refusal) -> None:
    assert "run `lacuna console` beside them" in refused(
        "up", "--workers", "2", "--console", "127.0.0.1:0"
    )
    assert "not of the form HOST:PORT" in refused("up", "--console", "nowhere")
    assert "no cluster is running" in refused("console", "--data", "nowhere")


def test_the_console_of_a_cluster_elsewhere(lacuna_process: ProcessCluster) -> None:
    command = [sys.executable, "-m", "lacuna", "console", "--listen", "127.0.0.1:0"]
    command += ["--data", str(lacuna_process.data), "--bootstrap", lacuna_process.bootstrap]
    console = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert console.stdout is not None
    try:
        address = console.stdout.readline().removeprefix("console: ").strip()
        with urlopen(address, timeout=SECONDS) as answer:
            page = answer.read().decode()
        assert lacuna_process.bootstrap in page
        assert '<span class="badge good">leader</span>' in page
        assert "Load of this process" not in page
        with urlopen(f"{address}/clients", timeout=SECONDS) as answer:
            assert b"known to the agents" in answer.read()
        # An event stream that is open does not keep it from ending.
        stream = http.client.HTTPConnection(address.removeprefix("http://"), timeout=SECONDS)
        stream.request("GET", "/live")
        assert stream.getresponse().readline() == b"event: tick\n"
    finally:
        console.send_signal(signal.SIGINT)
        _, err = console.communicate(timeout=SECONDS)
    assert (console.returncode, err) == (0, "")
