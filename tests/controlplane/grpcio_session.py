"""Opens a session with a control plane through grpcio, an independent gRPC implementation."""

from __future__ import annotations

from typing import Any

import grpc.aio

from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse


def open_session(channel: grpc.aio.Channel) -> Any:
    """Open a session's stream, for writing requests and reading responses."""
    method: Any = channel.stream_stream(
        "/controlplane.v1.ControlPlane/Session",
        request_serializer=SessionRequest.SerializeToString,
        response_deserializer=SessionResponse.FromString,
    )
    return method()
