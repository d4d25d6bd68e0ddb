"""Tests the connection of the commands to an agent."""

import asyncio

import pytest

from lacuna.operating.kafka import Agents, BootstrapUnavailable, KafkaConnection
from lacuna.wire.messages.heartbeat import HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE, HeartbeatRequest


async def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request once the second has arrived."""
        await reader.readuntil(b"second")
        writer.write(b"\0\0\0\x06\0\0\0\x01\0\0")
        await reader.read()
        writer.close()

    async def ask(group: str) -> None:
        request = HeartbeatRequest(group, 1, "m")
        await connection.ask(HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE, 0, request)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    agents = Agents(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server, KafkaConnection(agents) as connection:
        connection._timeout_seconds = 0.01
        with pytest.raises(BootstrapUnavailable, match="did not answer within"):
            await ask("first")
        connection._timeout_seconds = 60.0
        with pytest.raises(BootstrapUnavailable, match="answered another request"):
            await ask("second")
