"""A process that asks the control plane and goes says nothing of its own."""

import subprocess
import sys

import pytest

from controlplane.client import ControlPlaneUnavailable
from lacuna.testing import Cluster
from pipeline.control import ControlPlane
from pipeline.location import find_cluster

CLIENTS = """
import gc, sys
from pipeline.control import ControlPlane

for _ in range(5):
    with ControlPlane(sys.argv[1]) as control:
        control.topics()
    gc.collect()
"""


def test_clients_come_and_go_in_silence(cluster: Cluster) -> None:
    address = find_cluster(data=str(cluster.data)).require_control()
    ran = subprocess.run(
        [sys.executable, "-c", CLIENTS, address], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_closed_client_says_so(cluster: Cluster) -> None:
    with ControlPlane(find_cluster(data=str(cluster.data)).require_control()) as control:
        assert control.topics() is not None
    control.close()
    with pytest.raises(ControlPlaneUnavailable, match="is closed"):
        control.topics()
