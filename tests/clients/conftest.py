"""Fixtures of the client tests: one cluster, fresh topics, and where they run.

`--bootstrap HOST:PORT` points all of them at a running broker (Apache Kafka with `--kafka` too); without it
the embedded cluster of lacuna.testing's plugin serves them.
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


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("clients")
    group.addoption("--bootstrap", default=None, help="run the client tests on this broker")
    group.addoption(
        "--kafka",
        action="store_true",
        help="that broker is Apache Kafka: control records take offsets",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """What a client test needs to know of the cluster: its address as host:port."""

    bootstrap: str


@pytest.fixture(scope="session")
def is_kafka(pytestconfig: pytest.Config) -> bool:
    """Whether this run looks at Apache Kafka, where control records take offsets."""
    return bool(pytestconfig.getoption("--kafka", default=False))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Any:
    """Anything with `.bootstrap`: the broker of --bootstrap, else the embedded cluster."""
    bootstrap = request.config.getoption("--bootstrap", default=None)
    if bootstrap is not None:
        return Cluster(bootstrap)
    return request.getfixturevalue("lacuna_cluster")


@pytest.fixture(scope="session")
def bootstrap(cluster: Any) -> str:
    """The address of the cluster."""
    return str(cluster.bootstrap)


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """One librdkafka admin client for the whole run."""
    return AdminClient({"bootstrap.servers": bootstrap})


Topic = Callable[..., str]


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[Topic]:
    """A factory: `topic(partitions=1, **configs) -> name`, config names with _ for the dots."""
    made: list[str] = []

    def make(partitions: int = 1, **configs: object) -> str:
        name = f"c-{uuid.uuid4().hex[:12]}"
        configs = {"retention_ms": -1} | configs  # the tests write records of long ago
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(15)
        made.append(name)
        return name

    yield make
    if made:
        for future in admin.delete_topics(made).values():
            future.exception(15)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A factory of names that nobody used before: groups, transactional ids."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:12]}"
