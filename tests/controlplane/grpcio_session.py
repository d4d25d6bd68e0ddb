"""Opens a session with a control plane through grpcio, an independent implementation of gRPC."""

from __future__ import annotations

from typing import Any

import grpc.aio

from lacuna.controlplane.v1.control_pb2 import SessionRequest, SessionResponse


def open_session(channel: grpc.aio.Channel) -> Any:
    """Open the stream of a session, to write requests to it and read responses from it."""
    method: Any = channel.stream_stream(
        "/controlplane.v1.ControlPlane/Session",
        request_serializer=SessionRequest.SerializeToString,
        response_deserializer=SessionResponse.FromString,
    )
    return method()
