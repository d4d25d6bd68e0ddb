"""The control plane's client for agents and jobs: its protocol, two transports, and the views."""

from lacuna.controlplane.client.grpc import (
    CallError,
    GrpcClient,
    addresses_in,
    ask_once,
    resolved,
)
from lacuna.controlplane.client.in_process import InProcessClient
from lacuna.controlplane.client.past import AsOf, Cut, not_known, read_as_of, read_cut
from lacuna.controlplane.client.protocol import (
    CommandRefused,
    ControlClient,
    ControlPlaneUnavailable,
    confirm,
)
from lacuna.controlplane.client.session import SessionClient, SessionLimits
from lacuna.controlplane.client.times import past_time_of, show_time
from lacuna.controlplane.client.tls import (
    NO_TLS,
    ControlPlace,
    ControlTls,
    ControlTlsSettings,
    control_tls_settings,
    made_of,
)
from lacuna.controlplane.client.views import ClusterView, PartitionView

__all__ = [
    "NO_TLS",
    "AsOf",
    "CallError",
    "ClusterView",
    "CommandRefused",
    "ControlClient",
    "ControlPlace",
    "ControlPlaneUnavailable",
    "ControlTls",
    "ControlTlsSettings",
    "Cut",
    "GrpcClient",
    "InProcessClient",
    "PartitionView",
    "SessionClient",
    "SessionLimits",
    "addresses_in",
    "ask_once",
    "confirm",
    "control_tls_settings",
    "made_of",
    "not_known",
    "past_time_of",
    "read_as_of",
    "read_cut",
    "resolved",
    "show_time",
]
