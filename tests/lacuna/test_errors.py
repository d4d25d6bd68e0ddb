"""Every mistake is one line that says what to do, with an exit code that is not 0."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lacuna.conftest import Refusal

MISTAKES = [
    (("tpics",), 2, "Did you mean 'topics'?"),
    (("topics", "list", "--foo"), 2, "`lacuna topics list --help` explains"),
    (("up", "--workers", "0"), 2, "0 is not in the range 1<=x<=256"),
    (("explain",), 2, "Missing argument"),
    (
        ("up", "--listen", "nine"),
        1,
        "'nine' is not of the form HOST:PORT, for example 127.0.0.1:9092",
    ),
    (("up", "--listen", "a:1,b:2"), 1, "two listeners are called PLAINTEXT"),
    (
        ("up", "--listen", "0.0.0.0:0"),
        1,
        "give the address they can use with --advertise HOST:PORT",
    ),
    (("up", "--listen", "192.0.2.1:9092"), 1, "cannot listen on 192.0.2.1:9092"),
    (("up", "--data", "/dev/null/data"), 1, "choose another with --data"),
    (("up", "--moto", "--bucket", "b"), 1, "leave --bucket and --endpoint out"),
    (("up", "--endpoint", "http://127.0.0.1:1"), 1, "name the bucket"),
    (("up", "--bucket", "bucket"), 1, "set AWS_ACCESS_KEY_ID"),
    (("agent",), 2, "Missing option '--control'"),
    (("agent", "--control", "h:1"), 1, "use one of --bucket, --objects and --store"),
    (("agent", "--control", "h:1", "--store", "ftp://x"), 1, "is not the URL of an object store"),
    (("agent", "--control", "h", "--objects", "o"), 1, "'h' is not of the form HOST:PORT"),
    (("controlplane", "--listen", "nine"), 1, "'nine' is not of the form HOST:PORT"),
    (("explain", "t"), 1, "no cluster is running on the data folder data"),
    (("explain", "t", "--control", "h"), 1, "'h' is not of the form HOST:PORT"),
    (("topics", "list", "--bootstrap", "h"), 1, "'h' is not of the form HOST:PORT"),
    (("demo", "--control", "h:1"), 1, "--control needs --bootstrap"),
    (("topics", "delete", "t"), 1, "add --yes"),
    (("topics", "create", "t", "-p", "4294967296"), 2, "not in the range 1<=x<=2147483647"),
    (("transactions", "list", "--longer-than-ms", "9" * 20), 2, "is not in the range x<="),
    (("up", "--partitions", "100001"), 1, "choose a value from 1 to 100000"),
    (("up", "--listen", "[]:0"), 1, "'[]:0' is not of the form HOST:PORT"),
    (("up", "--listen", "0:0"), 1, "give the address they can use with --advertise HOST:PORT"),
    (("up", "--listen", "[0::0]:0"), 1, "give the address they can use with --advertise HOST:PORT"),
    (("up", "--data", ""), 2, "it is empty"),
    (("up", "--bucket", ""), 2, "it is empty"),
    (("up", "--bucket", "b", "--endpoint="), 2, "it is empty"),
    (("agent", "--control", "h:1", "--store="), 2, "it is empty"),
    (("agent", "--control", "h:1", "--objects="), 2, "it is empty"),
    (("controlplane", "--data="), 2, "it is empty"),
    (("controlplane", "--listen", "a:1,b:2"), 1, "give one HOST:PORT"),
    (("explain", "t", "--data="), 2, "it is empty"),
    (("metadata", "publish", "--watch", "36501d"), 1, "write a duration"),
    (("metadata", "publish", "--keep", "30d"), 1, "7 days are the maximum; publish a new snapshot"),
    (("up", "--moto", "--data", "d"), 1, "leave one of the two out"),
    (("up", "--port", "9093"), 2, "write --listen HOST:PORT"),
    (("up", "--host", "0.0.0.0"), 2, "write --listen HOST:PORT"),
    (("up", "--data-dir", "d"), 2, "write --data PATH"),
    (("topics", "list", "--bootstrap-server", "h:1"), 2, "write --bootstrap HOST:PORT"),
    (("topics", "create", "--topic", "t"), 2, "the name is an argument here: create NAME"),
    (("topics", "create", "t", "--replication-factor", "3"), 2, "there are no replicas"),
    (("compact", "--store", "s3//x"), 1, "'s3//x' is not the URL of an object store"),
    (("compact", "--store", "s3://[x"), 1, "'s3://[x' is not the URL of an object store"),
    (
        ("export", "t", "--to", "o", "--store", "s3//x"),
        1,
        "'s3//x' is not the URL of an object store",
    ),
    (("transactions", "abort", ""), 2, "it is empty: give a value;"),
    (("topics", "describe", ""), 2, "it is empty: give a value;"),
    (("topics", "create", "t", "-c", "=3"), 1, "--config =3: the name is empty"),
    (("up", "--zone", ""), 2, "it is empty: give a value, or leave the option out"),
    (("transactions", "list", "-s", ""), 2, "it is empty: give a value, or leave the option out"),
    (("explain", "t", "-1"), 2, "there is no option -1 here: numbers are 0 or more"),
    (("explain", "t", "--from", "5", "--to", "2"), 1, "--from 5 is greater than --to 2"),
    (("verify", "--no-spark", "--master", "local[1]"), 2, "leave --master and --conf out"),
    (("verify", "--no-spark", "--conf", "a=b"), 2, "leave --master and --conf out"),
    (("verify", "--store", "s3//x"), 2, "'s3//x' is not the URL of an object store"),
]


@pytest.mark.parametrize(("arguments", "code", "hint"), MISTAKES, ids=lambda value: str(value))
def test_a_mistake_is_one_line(
    refused: Refusal, arguments: tuple[str, ...], code: int, hint: str
) -> None:
    said = refused(*arguments, code=code, AWS_EC2_METADATA_DISABLED="true")
    assert hint in said


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    "arguments", [("topics", "list"), ("groups", "list"), ("transactions", "list"), ("demo",)]
)
def test_no_agent_answers(refused: Refusal, nobody: str, arguments: tuple[str, ...]) -> None:
    said = refused(*arguments, "--bootstrap", nobody)
    assert said.startswith(f"no agent answers at {nobody} ")
    assert said.endswith("is it running? `lacuna up` starts one")


def test_no_control_plane_answers(refused: Refusal, nobody: str) -> None:
    assert "is it running?" in refused("explain", "t", "--control", nobody)


def test_something_else_answers(refused: Refusal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1000)

        threading.Thread(target=answer, daemon=True).start()
        assert "does not speak the Kafka protocol" in refused("topics", "list", "-b", address)


def test_the_port_is_taken(refused: Refusal, nobody: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        wanted = f"cannot listen on {address}: Address already in use; choose another address with --listen"
        assert refused("up", "--listen", address) == wanted
        assert refused("up", "--listen", address, "--workers", "2") == wanted
        assert refused("controlplane", "--listen", address).startswith(
            f"cannot listen on {address}"
        )


def test_what_is_typed_counts_before_the_environment(refused: Refusal) -> None:
    control = "127.0.0.1:1"
    assert refused("explain", "t", "--data", "d", LACUNA_CONTROL=control).startswith(
        "no cluster is running on the data folder d:"
    )
    said = refused("metadata", "publish", "--data", "d", LACUNA_CONTROL=control)
    assert said.startswith("no cluster is running on the data folder d:")
    said = refused("demo", "--bootstrap", "h", LACUNA_CONTROL=control)
    assert said.startswith("'h' is not of the form HOST:PORT")
    said = refused("explain", "t", "--control", "h", LACUNA_DATA="d")
    assert said.startswith("'h' is not of the form HOST:PORT")


@pytest.mark.parametrize("left", [b"", b"\n", b"\xff\x00"], ids=repr)
def test_an_address_that_is_none(refused: Refusal, tmp_path: Path, left: bytes) -> None:
    (tmp_path / "control.address").write_bytes(left)
    (tmp_path / "objects").mkdir()
    for command in ("explain t", "compact --dry-run", "metadata publish"):
        said = refused(*command.split(), "--data", str(tmp_path))
        assert said.startswith(f"no cluster is running on the data folder {tmp_path}: ")


def test_a_warning_in_a_file_is_one_line() -> None:
    code = "import logging; from lacuna.cli.running import log_to_stderr; log_to_stderr(False); "
    code += "logging.getLogger('lacuna.agent').warning('no space left ' * 20)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (line,) = ran.stderr.splitlines()
    assert f"WARNING lacuna.agent: {'no space left ' * 20}" in line
