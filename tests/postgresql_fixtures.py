"""Fixtures of a PostgreSQL server, which is started when the first test asks for it; a conftest.py imports them."""

import itertools
from collections.abc import Iterator

import pytest

from tests.postgresql import PostgresqlServer, binaries

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    server = PostgresqlServer(found)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def database(postgresql: PostgresqlServer) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test{next(_numbers)}"
    yield postgresql.make_database(name)
    postgresql.drop_database(name)
