"""Tests that a process which queries the control plane and exits prints nothing of its own."""

import subprocess
import sys

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.errors import StaleMetadataError
from lacuna.pipeline.location import find_cluster
from lacuna.testing import Cluster

CLIENTS = """
import gc, sys
from lacuna.controlplane.client import ControlPlace
from lacuna.pipeline.control import ControlPlane

for _ in range(5):
    with ControlPlane(ControlPlace(sys.argv[1])) as control:
        control.topics()
    gc.collect()
"""


def test_clients_come_and_go_in_silence(cluster: Cluster) -> None:
    address = find_cluster(data=str(cluster.data)).require_control()
    ran = subprocess.run(
        [sys.executable, "-c", CLIENTS, str(address)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_s3_what_another_session_was_answered_is_there(cluster: Cluster) -> None:
    """S3: the result is as of the call, not as of the last received message."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    address = find_cluster(data=str(cluster.data)).require_control()
    with ControlPlane(address) as control:
        for count in range(30):
            name = f"answered-{count}"
            admin.create_topics([NewTopic(name, 1)])[name].result(60)
            topic_id = control.topics()[name].topic_id
            assert control.partition_logs([(topic_id, 0)])[0].high_watermark == 0
            producer.produce(name, b"value")
            assert producer.flush(60) == 0
            assert control.partition_logs([(topic_id, 0)])[0].high_watermark == 1
            admin.delete_topics([name])[name].result(60)
            with pytest.raises(StaleMetadataError, match="was deleted while the job ran"):
                control.partition_logs([(topic_id, 0)])


def test_a_closed_client_says_so(cluster: Cluster) -> None:
    with ControlPlane(find_cluster(data=str(cluster.data)).require_control()) as control:
        assert control.topics() is not None
    control.close()
    with pytest.raises(ControlPlaneUnavailable, match="is closed"):
        control.topics()
