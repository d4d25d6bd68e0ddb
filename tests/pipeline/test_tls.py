"""Tests Spark's source and sink with a control plane that requires certificates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.certificates import Authority
from tests.lacuna.test_controlplane_and_agents import running


@contextmanager
def cluster(folder: Path, *rights: str) -> Iterator[tuple[AdminClient, dict[str, str]]]:
    """A cluster with certificates and a topic. Yields an admin, and the options of a job."""
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
