"""A PostgreSQL server, and buckets on an S3 server, for the conftest.py that imports them."""

from collections.abc import Iterator

import pytest

from lacuna.logstore.objects import ConditionalStore
from lacuna.logstore.objects import bucket_url as bucket_url_of
from lacuna.operating.moto import CREDENTIALS
from lacuna.operating.stores import open_checked
from tests.postgresql import PostgresqlServer, binaries
from tests.shared_moto import fresh_bucket, moto_endpoint

__all__ = ["bucket_url", "database", "kept_database", "moto_endpoint", "postgresql", "s3"]

_DATABASE = "test"


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


@pytest.fixture(scope="session")
def kept_database(postgresql: PostgresqlServer) -> str:
    return postgresql.make_database(_DATABASE)


@pytest.fixture
def database(postgresql: PostgresqlServer, kept_database: str) -> Iterator[str]:
    """The URL of an empty database."""
    yield kept_database
    postgresql.clear_database(_DATABASE)


@pytest.fixture
def s3(moto_endpoint: str) -> Iterator[ConditionalStore]:
    """An empty bucket."""
    # boto3 takes a third of a second to import
    from lacuna.logstore.objects.s3 import S3Store

    # More patient than a journal's: on a busy machine, the server may get no CPU time for seconds.
    store = S3Store(
        fresh_bucket(),
        "cluster",
        endpoint=moto_endpoint,
        access_key_id="test",
        secret_access_key="test",
    )
    store.create_bucket()
    yield store
    store.close()


@pytest.fixture
def bucket_url(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket, usable by this process and its children."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = bucket_url_of(f"{fresh_bucket()}/cluster", endpoint=moto_endpoint)
    open_checked(url, create_bucket=True).close()
    return url
