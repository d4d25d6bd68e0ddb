"""Tests that an unusable Spark master is reported within seconds, by our own message."""

import socket
from collections.abc import Iterator

import pytest

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.master import check_master, is_local


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def refusing() -> Iterator[int]:
    """A reserved port on which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[3]", True),
        ("local[*, 4]", True),
        ("local-cluster[2,1,1024]", False),
        ("yarn", False),
        ("k8s://https://10.0.0.1:6443", False),
    ],
)
def test_masters_that_spark_knows(master: str, local: bool) -> None:
    check_master(master)
    assert is_local(master) is local


@pytest.mark.parametrize(
    "master", ["nonsense", "", "local[0]", "local[]", "local[two]", "localhost:7077", "spark://"]
)
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(PipelineError, match="is not a Spark master: give local"):
        check_master(master)


@pytest.mark.parametrize("address", ["host", "host:", ":7077", "host:port", "host:0", "a:1,b"])
def test_what_is_no_address_of_one(address: str) -> None:
    with pytest.raises(PipelineError, match="is not the address of a Spark master"):
        check_master(f"spark://{address}")


def test_somebody_has_to_listen(listening: int, refusing: int) -> None:
    check_master(f"spark://127.0.0.1:{listening}")
    check_master(f"spark://127.0.0.1:{refusing},127.0.0.1:{listening}")
    with pytest.raises(PipelineError, match=r"no Spark master answers at .*refused"):
        check_master(f"spark://127.0.0.1:{refusing}")
