"""Tests jobs on an encrypted bucket: Spark reads, writes and compacts only with the file of keys."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lacuna.cli.app import app
from lacuna.logstore.objects import DirectoryStore, folder_url
from lacuna.logstore.objects.url import with_options
from lacuna.pipeline.audit import AuditOptions, audit
from lacuna.pipeline.location import find_cluster
from lacuna.testing import Cluster
from tests.doubles.keys import write_keys
from tests.pipeline.conftest import UNMERGED, Written


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return write_keys(tmp_path / "keys.toml", ["first"])


@pytest.fixture
def encrypted(tmp_path: Path, keys: Path) -> Iterator[Cluster]:
    data = tmp_path / "data"
    url = with_options(folder_url(data / "objects"), encryption_keys=str(keys))
    with Cluster(data, store=url, parts=UNMERGED) as running:
        yield running


def test_spark_reads_writes_and_compacts_with_the_keys(
    spark: SparkSession, encrypted: Cluster, keys: Path, transact: Callable[..., Written]
) -> None:
    topic = encrypted.create_topic("orders")
    aborted = [(None, b"secret aborted %d" % number) for number in range(10)]
    committed = [(b"%d" % number, b"secret %d" % number) for number in range(10)]
    transact(encrypted, topic, [(True, committed), (False, aborted)] * 3)
    control = find_cluster(data=str(encrypted.data)).require_control()
    bare = {"control": control.address, "store": folder_url(encrypted.data / "objects")}

    def read(**options: str) -> list[tuple[bytes, bytes]]:
        rows = spark.read.format("lacuna").options(subscribe=topic, **options).load()
        return sorted((bytes(row.key), bytes(row.value)) for row in rows.collect())

    with pytest.raises(PySparkException, match="the objects of this cluster are encrypted"):
        read(**bare)
    assert read(**bare, encryptionKeys=str(keys)) == sorted(committed * 3)

    write_keys(keys, ["second", "first"])
    new = spark.createDataFrame([(b"new", b"secret new")], "key binary, value binary")
    new.write.format("lacuna").mode("append").options(topic=topic, data=str(encrypted.data)).save()
    expected = sorted([*committed * 3, (b"new", b"secret new")])
    assert read(data=str(encrypted.data)) == expected

    command = CliRunner()
    for arguments in (["compact", "--topic", topic, "--all"], ["metadata", "publish"]):
        ran = command.invoke(app, [*arguments, "--data", str(encrypted.data)])
        assert ran.exit_code == 0, ran.output
    assert read(data=str(encrypted.data), metadata="bucket") == expected
    location = find_cluster(data=str(encrypted.data))
    report = audit(location, AuditOptions(), lambda: nullcontext(spark))
    assert report.is_sound
    store = DirectoryStore(encrypted.data / "objects")
    objects = {info.key: bytes(store.get_all(info.key)) for info in store.list()}
    store.close()
    assert any("/metadata/" in key for key in objects)
    assert not any(b"secret" in each or b"orders" in each for each in objects.values())
