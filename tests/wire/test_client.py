"""Tests the client's side of a connection: frames in and out, and the meaning of SASL's answers."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from lacuna.base.sasl import Credentials, SaslError, plain, scram
from lacuna.wire.client import (
    ClientFrames,
    CredentialsRefusedError,
    MechanismNotEnabledError,
    NoAnswerError,
    NoSaslError,
    SizeError,
    authenticate,
)
from lacuna.wire.layout import Message
from lacuna.wire.messages.cluster import API_VERSIONS_REQUEST, ApiVersionsRequest
from lacuna.wire.messages.groups import HEARTBEAT_REQUEST, HeartbeatRequest
from lacuna.wire.messages.security import SaslAuthenticateResponse, SaslHandshakeResponse

MOST = 100
HEARTBEAT = HeartbeatRequest("g", 1, "m")


def asked(frames: ClientFrames, version: int = 0) -> bytes:
    return frames.request(HEARTBEAT_REQUEST, version, HEARTBEAT, MOST)


@pytest.mark.parametrize(("version", "tags"), [(0, b""), (4, b"\0")])
def test_a_request_has_the_header_of_its_version(version: int, tags: bytes) -> None:
    frames = ClientFrames(b"us")
    asked(frames, version)
    header = struct.pack(">hhih", 12, version, 2, 2) + b"us" + tags
    payload = header + HEARTBEAT_REQUEST.write(HEARTBEAT, version)
    assert asked(frames, version) == struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(("version", "tags"), [(0, b""), (4, b"\0")])
def test_an_answer_is_a_size_and_a_frame(version: int, tags: bytes) -> None:
    frames = ClientFrames(b"us")
    for number in (1, 2):
        asked(frames, version)
        frame = struct.pack(">i", number) + tags + b"body"
        assert (frames.missing, frames.awaits_size) == (4, True)
        assert frames.take(struct.pack(">i", len(frame))) is None
        assert (frames.missing, frames.awaits_size) == (len(frame), False)
        body = frames.take(bytearray(frame))
        assert body is not None
        assert (bytes(body), body.readonly) == (b"body", True)


def test_the_answer_to_api_versions_has_the_oldest_header_in_each_version() -> None:
    frames = ClientFrames(b"us")
    frames.request(API_VERSIONS_REQUEST, 3, ApiVersionsRequest(), MOST)
    frame = struct.pack(">i", 1) + b"body"
    frames.take(struct.pack(">i", len(frame)))
    body = frames.take(frame)
    assert body is not None
    assert bytes(body) == b"body"


@pytest.mark.parametrize("size", [-1, 0, 3, MOST + 1, 0x48545450])
def test_a_size_that_no_answer_has_is_refused(size: int) -> None:
    frames = ClientFrames(b"us")
    asked(frames)
    with pytest.raises(SizeError) as caught:
        frames.take(struct.pack(">i", size))
    assert caught.value.size == size


def test_nothing_is_taken_before_a_request() -> None:
    with pytest.raises(SizeError):
        ClientFrames(b"us").take(struct.pack(">i", 8))


def test_the_late_answer_of_an_earlier_request_is_not_taken_for_this_one() -> None:
    frames = ClientFrames(b"us")
    asked(frames)
    asked(frames)
    frames.take(struct.pack(">i", 8))
    with pytest.raises(NoAnswerError, match="another request"):
        frames.take(struct.pack(">i", 1) + b"body")


class Server:
    """Sends these answers one by one, and keeps the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    async def ask(
        self, form: Message[Any], answer: Message[Any], version: int, request: Any
    ) -> Any:
        del form, answer
        assert version == 1
        self.requests.append(request)
        return self.answers.pop(0)


async def test_tokens_are_exchanged_until_the_mechanism_ends() -> None:
    server = Server(SaslHandshakeResponse(), SaslAuthenticateResponse())
    await authenticate(server.ask, plain("user", "word"))
    assert server.requests == [("PLAIN",), (b"\0user\0word",)]


@pytest.mark.parametrize(
    ("credentials", "answers", "error", "why"),
    [
        (plain("u", "p"), [SaslHandshakeResponse(33, ["X"])], MechanismNotEnabledError, "mechanism$"),
        (plain("u", "p"), [SaslHandshakeResponse(34)], NoSaslError, "clients$"),
        (
            plain("u", "p"),
            [SaslHandshakeResponse(), SaslAuthenticateResponse(58, "wrong")],
            CredentialsRefusedError,
            "^wrong$",
        ),
        (
            plain("u", "p"),
            [SaslHandshakeResponse(), SaslAuthenticateResponse(58)],
            CredentialsRefusedError,
            "^error 58$",
        ),
        (
            scram("SCRAM-SHA-256", "u", "p"),
            [SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"r=x")],
            SaslError,
            "is not valid",
        ),
    ],
)  # fmt: skip
async def test_each_refusal_is_its_own_error(
    credentials: Credentials, answers: Sequence[Any], error: type[SaslError], why: str
) -> None:
    server = Server(*answers)
    with pytest.raises(error, match=why) as caught:
        await authenticate(server.ask, credentials)
    assert type(caught.value) is error
    assert server.answers == []


async def test_the_mechanisms_that_a_server_has_are_named() -> None:
    with pytest.raises(MechanismNotEnabledError) as caught:
        await authenticate(Server(SaslHandshakeResponse(33, ["X"])).ask, plain("u", "p"))
    assert list(caught.value.enabled) == ["X"]
