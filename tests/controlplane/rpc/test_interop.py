"""Against grpcio, at either end: messages of any size, ends, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from lacuna.controlplane.rpc.call import Call, CallError, Status
from lacuna.controlplane.rpc.client import ask, begin, connected
from lacuna.controlplane.rpc.server import RpcLimits, RpcServer

ECHO = "/test.Test/Echo"
SIZES = [0, 1, 100, 16_384, 65_535, 65_536, 5 << 20]
UNLIMITED = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)


def channel_to(address: str) -> Any:
    """A channel of grpcio, whose stubs do not know that serializers may be left out."""
    return grpc.aio.insecure_channel(address, options=UNLIMITED)


def message(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


async def echo(call: Call) -> None:
    """Sends back what comes, and ends as its last message says."""
    while (came := await call.read()) is not None:
        if came.startswith(b"fail:"):
            raise CallError(Status.INVALID_ARGUMENT, came[5:].decode())
        await call.write(came)


@asynccontextmanager
async def ours(handler: Callable[[Call], Awaitable[None]] = echo) -> AsyncIterator[str]:
    """Runs our server."""
    server = RpcServer({ECHO: handler}, RpcLimits(max_message=8 << 20))
    yield await server.start("127.0.0.1:0")
    await server.stop(0.0)


@asynccontextmanager
async def theirs() -> AsyncIterator[str]:
    """Runs grpcio's server."""

    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for came in requests:
            if came.startswith(b"fail:"):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, came[5:].decode())
            yield came

    server = grpc.aio.server(options=UNLIMITED)
    handler = grpc.stream_stream_rpc_method_handler(handle)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Test", {"Echo": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@pytest.mark.parametrize("serving", [ours, theirs])
async def test_our_client_speaks_with_either_server(
    serving: Callable[[], Any],
) -> None:
    async with serving() as address, connected(address, ping_after=60.0) as link:
        call = begin(link, ECHO, address)
        for size in SIZES:
            await call.write(message(size))
            assert await call.read() == message(size)
        call.end()
        assert await call.read() is None
        failing = begin(link, ECHO, address)
        await failing.write("fail:größer als 100 % erlaubt".encode())
        with pytest.raises(CallError, match="größer als 100 % erlaubt") as failed:
            await failing.read()
        assert failed.value.status == Status.INVALID_ARGUMENT
        assert await ask(address, ECHO, b"once", 60.0) == b"once"
        with pytest.raises(CallError) as failed:
            await ask(address, "/test.Test/Nothing", b"", 60.0)
        assert failed.value.status == Status.UNIMPLEMENTED


async def test_their_client_speaks_with_our_server() -> None:
    async with ours() as address, channel_to(address) as channel:
        stream = channel.stream_stream(ECHO)()
        for size in SIZES:
            await stream.write(message(size))
            assert await stream.read() == message(size)
        await stream.done_writing()
        assert await stream.read() == grpc.aio.EOF  # type: ignore[attr-defined]
        assert await stream.code() == grpc.StatusCode.OK
        failing = channel.stream_stream(ECHO)()
        await failing.write("fail:größer als 100 % erlaubt".encode())
        with pytest.raises(grpc.aio.AioRpcError, match="größer als 100 % erlaubt"):
            await failing.read()
        with pytest.raises(grpc.aio.AioRpcError, match="there is no method"):
            await channel.unary_unary("/test.Test/Nothing")(b"")
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary(ECHO)(message(1_000), compression=grpc.Compression.Gzip)
        too_large = channel.unary_unary(ECHO)
        with pytest.raises(grpc.aio.AioRpcError):
            await too_large(message(9 << 20))
        assert await channel.unary_unary(ECHO)(b"still here") == b"still here"


async def test_more_calls_than_may_be_open_wait_for_their_turn() -> None:
    async with ours() as address, channel_to(address) as channel:
        ask_once = channel.unary_unary(ECHO)
        wanted = [b"%d" % number for number in range(250)]
        assert await asyncio.gather(*map(ask_once, wanted)) == wanted


async def test_a_client_that_leaves_is_noticed() -> None:
    left: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handler(call: Call) -> None:
        try:
            await call.write(b"here")
            await call.read()
        except CallError as error:
            left.set_result(str(error))

    async with ours(handler) as address, channel_to(address) as channel:
        stream = channel.stream_stream(ECHO)()
        assert await stream.read() == b"here"
        stream.cancel()
        assert "reset" in await left


async def test_a_server_that_stops_ends_calls_and_says_why() -> None:
    server = RpcServer({ECHO: echo}, RpcLimits())
    address = await server.start("127.0.0.1:0")
    async with connected(address, ping_after=60.0) as link:
        call = begin(link, ECHO, address)
        await call.write(b"one")
        assert await call.read() == b"one"
        await server.stop(0.0)
        with pytest.raises(CallError):
            await call.read()
        with pytest.raises(CallError):
            begin(link, ECHO, address)
    with pytest.raises(CallError, match="cannot connect"):
        await ask(address, ECHO, b"", 60.0)


@pytest.mark.parametrize("serving", [ours, theirs])
async def test_who_does_not_read_slows_the_sender_down(serving: Callable[[], Any]) -> None:
    """An echo that nobody reads stops reading too: the memory of both ends is bounded."""
    block = message(1 << 20)
    async with serving() as address, connected(address, ping_after=60.0) as link:
        call = begin(link, ECHO, address)
        sent = 0

        async def send() -> None:
            nonlocal sent
            while True:
                await call.write(block)
                sent += 1

        sending = asyncio.create_task(send())
        seen = -1
        # Blocked is what has begun and gets no further; one that only waits for the processor gets further later.
        while sent < 4 or seen != sent:
            seen = sent
            await asyncio.sleep(0.3)
        assert 4 <= sent < 60
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        for _ in range(sent):
            assert await call.read() == block
