"""A session with a control plane as grpcio opens one: another implementation of gRPC than ours."""

from __future__ import annotations

from typing import Any

import grpc.aio

from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse


def open_session(channel: grpc.aio.Channel) -> Any:
    """The stream of a session: requests are written to it, and responses are read."""
    method: Any = channel.stream_stream(
        "/controlplane.v1.ControlPlane/Session",
        request_serializer=SessionRequest.SerializeToString,
        response_deserializer=SessionResponse.FromString,
    )
    return method()
