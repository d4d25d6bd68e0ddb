"""Stores of every kind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lacuna.logstore.objects import DirectoryStore, MemoryStore, ObjectStore
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.s3 import S3Store, ServerSideEncryption
from tests.doubles.keys import some_keys
from tests.shared_moto import fresh_bucket, moto_endpoint

__all__ = ["moto_endpoint"]


@pytest.fixture
def open_s3(moto_endpoint: str) -> Iterator[Callable[..., S3Store]]:
    """Yield a function that opens stores in a fresh bucket, each under a given prefix."""
    bucket = fresh_bucket()
    stores: list[S3Store] = []

    def open_one(
        prefix: str = "some/prefix",
        *,
        create: bool = True,
        encryption: ServerSideEncryption | None = None,
    ) -> S3Store:
        store = S3Store(
            bucket,
            prefix,
            endpoint=moto_endpoint,
            access_key_id="test",
            secret_access_key="test",
            encryption=encryption,
        )
        # A second attempt at a conditional write can be refused because of the first one.
        store._answer_seconds = 3600.0
        stores.append(store)
        if create:
            store.create_bucket()
        return store

    yield open_one
    for store in stores:
        store.close()


KINDS = ["memory", "directory", "s3"]


@pytest.fixture(params=[*KINDS, "encrypted memory", "encrypted s3 with plaintext"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """Encryption requires only what every kind of store provides."""
    kind = request.param.removeprefix("encrypted ")
    opened: ObjectStore
    if kind == "memory":
        opened = MemoryStore()
    elif kind == "directory":
        opened = DirectoryStore(tmp_path / "objects")
    else:
        opened = request.getfixturevalue("open_s3")()
    if kind != request.param:
        opened = EncryptedStore(opened, some_keys(reads_plaintext=kind.endswith("plaintext")))
    yield opened
    opened.close()
