"""Fixtures for tests of code that uses Kafka. pytest finds them once lacuna is installed.

    def test_transfers(lacuna_cluster, lacuna_topic):
        topic = lacuna_topic(partitions=3)
        producer = Producer({"bootstrap.servers": lacuna_cluster.bootstrap, "transactional.id": "t"})

    lacuna_cluster            one cluster per session, in a thread of the test process
    lacuna_topic              creates a topic that no other test uses: lacuna_topic(partitions=1, **configs) -> name
    lacuna_private_cluster    a cluster for this test alone, which it may kill, restart, and move forward in time
    lacuna_process            `lacuna up` as a process for this test alone, which it may kill with SIGKILL
    lacuna_options            a dict of Cluster's keyword arguments for both clusters; override it to change them

Nothing is imported or started until a test requests a cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lacuna.testing import Cluster, ProcessCluster

_NUMBERS = itertools.count(1)
_STEM_LENGTH = 80


@pytest.fixture(scope="session")
def lacuna_options() -> dict[str, Any]:
    """Keyword arguments of `Cluster`, for example {"agents": 2} or {"moto": True}."""
    return {}


@pytest.fixture(scope="session")
def lacuna_cluster(lacuna_options: dict[str, Any]) -> Iterator[Cluster]:
    """One embedded cluster for the whole session."""
    from lacuna.testing import Cluster

    with Cluster(**lacuna_options) as cluster:
        yield cluster


@pytest.fixture
def lacuna_topic(lacuna_cluster: Cluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function that creates a topic with a unique name on `lacuna_cluster`. In config names, _ stands for a dot."""

    def make(partitions: int = 1, **configs: object) -> str:
        stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
        named = {name.replace("_", "."): str(value) for name, value in configs.items()}
        name = f"{stem[:_STEM_LENGTH]}-{next(_NUMBERS)}"
        return lacuna_cluster.create_topic(name, partitions, named)

    return make


@pytest.fixture
def lacuna_private_cluster(tmp_path: Path, lacuna_options: dict[str, Any]) -> Iterator[Cluster]:
    """An embedded cluster for this test alone."""
    from lacuna.testing import Cluster

    with Cluster(tmp_path / "lacuna", **lacuna_options) as cluster:
        yield cluster


@pytest.fixture
def lacuna_process(tmp_path: Path) -> Iterator[ProcessCluster]:
    """`lacuna up` as a process for this test alone."""
    from lacuna.testing import ProcessCluster

    with ProcessCluster(tmp_path / "lacuna") as cluster:
        yield cluster
