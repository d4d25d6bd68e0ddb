"""Tests jobs with TLS to the bucket, and with a control plane that requires certificates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lacuna.cli.app import app
from lacuna.logstore.objects import DirectoryStore, folder_url
from lacuna.logstore.objects.url import with_options
from lacuna.pipeline.audit import AuditOptions, audit
from lacuna.pipeline.location import find_cluster
from lacuna.testing import Cluster
from tests.certificates import Authority
from tests.doubles.keys import write_keys
from tests.lacuna.test_controlplane_and_agents import running
from tests.pipeline.conftest import UNMERGED, transact


@contextmanager
def cluster(folder: Path, *rights: str) -> Iterator[tuple[AdminClient, dict[str, str]]]:
    """Run a cluster with certificates and a topic. Yields an admin client and the options for a job."""
    authority = Authority(folder)
    agent, job = authority.issue("agent"), authority.issue("job")
    settings = (
        f"--control-tls-cert={agent.certificate}",
        f"--control-tls-key={agent.key}",
        f"--control-tls-ca={authority.path}",
        "--set=controlplane.cluster.principals=User:CN=agent,O=tests",
        *rights,
    )
    plane = ("controlplane", "--listen=127.0.0.1:0", f"--data={folder}/data", *settings)
    objects = folder / "objects"
    with running("control plane: ", *plane) as control:
        where = (f"--control={control}", f"--objects={objects}", "--listen=127.0.0.1:0")
        with running("bootstrap: ", "agent", *where, *settings) as bootstrap:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic("t", 2)])["t"].result(60)
            options = {
                "control": control,
                "store": f"file://{objects}",
                "controlplane.ssl.certificate.location": job.certificate,
                "controlplane.ssl.key.location": job.key,
                "controlplane.ssl.ca.location": authority.path,
            }
            yield admin, options


def test_driver_and_executors_present_certificates(spark: SparkSession, tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, options):
        rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
        rows.write.format("lacuna").mode("append").options(**options, topic="t").save()
        read = spark.read.format("lacuna").options(**options, subscribe="t").load()
        assert sorted(bytes(row.value) for row in read.collect()) == [b"1", b"2"]


def test_acls_decide_what_the_source_and_the_sink_may_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    rights = ("--authorizer", "--super-user=User:ANONYMOUS")
    with cluster(tmp_path, *rights) as (admin, options):

        def allow(resource: ResourceType, name: str, operation: AclOperation) -> None:
            acl = AclBinding(
                resource,
                name,
                ResourcePatternType.LITERAL,
                "User:CN=job,O=tests",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            admin.create_acls([acl])[acl].result(60)

        def write() -> None:
            rows = spark.createDataFrame([("a", "1")], "key string, value string")
            writer = rows.write.format("lacuna").mode("append").options(**options, topic="t")
            writer.option("transactionalId", "tx").save()

        def read() -> list[bytes]:
            found = spark.read.format("lacuna").options(**options, subscribe="t").load()
            return [bytes(row.value) for row in found.collect()]

        with pytest.raises(Exception, match=r"no topic .*that User:CN=job,O=tests may describe"):
            write()
        allow(ResourceType.TOPIC, "t", AclOperation.WRITE)
        with pytest.raises(Exception, match="may not WRITE transactional id tx"):
            write()
        allow(ResourceType.TRANSACTIONAL_ID, "tx", AclOperation.WRITE)
        write()
        with pytest.raises(Exception, match="may not READ topic t: an operator can allow it"):
            read()
        allow(ResourceType.TOPIC, "t", AclOperation.READ)
        assert read() == [b"1"]


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
    spark: SparkSession, encrypted: Cluster, keys: Path
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
