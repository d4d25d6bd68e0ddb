"""Spark's source and sink with a control plane that asks for certificates."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.certificates import Authority
from tests.lacuna.test_controlplane_and_agents import running


def test_driver_and_executors_present_certificates(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    agent, job = authority.issue("agent"), authority.issue("job")
    tls = (
        f"--control-tls-cert={agent.certificate}",
        f"--control-tls-key={agent.key}",
        f"--control-tls-ca={authority.path}",
        "--set=controlplane.cluster.principals=User:CN=agent,O=tests",
    )
    plane = ("controlplane", "--listen=127.0.0.1:0", f"--data={tmp_path}/data", *tls)
    objects = tmp_path / "objects"
    with running("control plane: ", *plane) as control:
        where = (f"--control={control}", f"--objects={objects}", "--listen=127.0.0.1:0")
        with running("bootstrap: ", "agent", *where, *tls) as bootstrap:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic("t", 2)])["t"].result(60)
            options = {
                "control": control,
                "store": f"file://{objects}",
                "controlplane.ssl.certificate.location": job.certificate,
                "controlplane.ssl.key.location": job.key,
                "controlplane.ssl.ca.location": authority.path,
            }
            rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
            rows.write.format("lacuna").mode("append").options(**options, topic="t").save()
            read = spark.read.format("lacuna").options(**options, subscribe="t").load()
            assert sorted(bytes(row.value) for row in read.collect()) == [b"1", b"2"]
