"""Fixtures of the client tests: clusters and new topics.

They run on embedded clusters, by default `directory-1`: the directory store, one agent. `--lacuna-clusters
directory-1,directory-2,moto-1,moto-2` selects others, and every test runs on each of them. `--bootstrap HOST:PORT` runs
all tests against a running broker instead; add `--kafka` if it is Apache Kafka.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    NewTopic,
)

from lacuna.testing import Cluster as LacunaCluster

from .hurry import keep_leases

DEFAULT_CLUSTER = "directory-1"
#: name → keyword arguments of lacuna.testing.Cluster
CLUSTERS: dict[str, dict[str, Any]] = {
    "directory-1": {"agents": 1},
    "directory-2": {"agents": 2},
    "moto-1": {"agents": 1, "moto": True},
    "moto-2": {"agents": 2, "moto": True},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("clients")
    group.addoption("--bootstrap", default=None, help="run the client tests on this broker")
    group.addoption(
        "--kafka",
        action="store_true",
        help="that broker is Apache Kafka: control records take offsets",
    )
    group.addoption(
        "--lacuna-clusters",
        default=DEFAULT_CLUSTER,
        help=f"embedded clusters to run the client tests on, of {', '.join(CLUSTERS)}",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs every test that needs a cluster on each of the chosen clusters."""
    if "cluster" not in metafunc.fixturenames:
        return
    named = metafunc.config.getoption("--lacuna-clusters", default=DEFAULT_CLUSTER).split(",")
    if metafunc.config.getoption("--bootstrap", default=None) is not None:
        named = ["given"]
    elif not CLUSTERS.keys() >= set(named):
        raise pytest.UsageError(f"--lacuna-clusters takes {', '.join(CLUSTERS)}; got {named}")
    metafunc.parametrize("cluster", named, indirect=True, scope="session")


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """A running broker, given by its HOST:PORT, which is all that client tests need."""

    bootstrap: str


@pytest.fixture(scope="session")
def is_kafka(pytestconfig: pytest.Config) -> bool:
    """Whether this run uses Apache Kafka, where control records take offsets."""
    return bool(pytestconfig.getoption("--kafka", default=False))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Given | LacunaCluster]:
    """The cluster to test, which has `.bootstrap`: the broker of --bootstrap, or the named embedded cluster."""
    if request.param == "given":
        yield Given(request.config.getoption("--bootstrap"))
        return
    with LacunaCluster(**CLUSTERS[request.param]) as running:
        keep_leases(running)
        yield running


@pytest.fixture(scope="session")
def bootstrap(cluster: Given | LacunaCluster) -> str:
    """The address of the cluster."""
    return cluster.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """One librdkafka admin client for the whole run."""
    return AdminClient({"bootstrap.servers": bootstrap})


Topic = Callable[..., str]
Unique = Callable[[str], str]


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[Topic]:
    """A factory: `topic(partitions=1, **configs) -> name`, config names with _ for the dots."""
    made: list[str] = []

    def make(partitions: int = 1, **configs: object) -> str:
        name = f"c-{uuid.uuid4().hex[:12]}"
        configs = {"retention_ms": -1} | configs  # the tests write records with old timestamps
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(60)
        made.append(name)
        return name

    yield make
    if made:
        for future in admin.delete_topics(made).values():
            future.exception(60)


@pytest.fixture
def unique() -> Unique:
    """A factory of unique names, for groups and transactional ids."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:12]}"
