"""What others hold of the control plane: the client Protocol, two transports, the views."""

from controlplane.client.confirming import confirm
from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from controlplane.client.grpc import GrpcClient, GrpcClientSettings
from controlplane.client.in_process import InProcessClient
from controlplane.client.protocol import ControlClient
from controlplane.client.views import ClusterView, PartitionView

__all__ = [
    "ClusterView",
    "CommandRefused",
    "ControlClient",
    "ControlPlaneUnavailable",
    "GrpcClient",
    "GrpcClientSettings",
    "InProcessClient",
    "PartitionView",
    "confirm",
]
