"""Runs a distributed worker of Kafka Connect as a process."""

from __future__ import annotations

from pathlib import Path

from tests.compat.harness.tools import Server, free_port

SETTINGS = """\
bootstrap.servers={bootstrap}
group.id={prefix}-connect
client.id=kafka-connect
config.storage.topic={prefix}-connect-configs
offset.storage.topic={prefix}-connect-offsets
status.storage.topic={prefix}-connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=2
status.storage.partitions=1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
header.converter=org.apache.kafka.connect.converters.ByteArrayConverter
exactly.once.source.support=enabled
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
offset.flush.interval.ms=500
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=0
metadata.max.age.ms=5000
"""


class Worker(Server):
    """A worker whose REST interface answers once it has joined its group."""

    def __init__(self, bootstrap: str, prefix: str, classpath: str, folder: Path) -> None:
        port = free_port()
        properties = folder / "worker.properties"
        properties.write_text(SETTINGS.format(bootstrap=bootstrap, prefix=prefix, port=port))
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__([*java, main, str(properties)], f"http://127.0.0.1:{port}", "/connectors")
