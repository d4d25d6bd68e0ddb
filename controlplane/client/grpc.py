"""The transport over a wire: one Session stream, many commands a message.

While a message is being written, commands gather for the next one. When the stream ends, calls that
were sent fail (their outcome is not known), those not sent yet wait, every view is stale; the client
connects again, with growing pauses, and subscribes anew. While it has had no session for long, calls
and `ready` fail at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from controlplane.client.calls import Calls
from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from controlplane.client.host import PartitionKey
from controlplane.client.subscriptions import Subscriptions
from controlplane.client.views import ClusterView, PartitionView
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command, Reply, SessionRequest, SessionResponse
from controlplane.v1.control_pb2_grpc import ControlPlaneStub

_log = logging.getLogger("lacuna.controlplane.client")

#: A snapshot of a partition is one message, however many extents it has.
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcClientSettings:
    """Bounds: partitions, calls under way, commands and bytes a message, bytes a command; pauses in seconds.

    A message may go beyond its bound by one command; together they are within what the service takes.
    """

    max_partitions: int = 10_000
    max_calls: int = 100_000
    max_message_commands: int = 1_000
    max_message_bytes: int = 4 << 20
    max_command_bytes: int = 32 << 20
    first_pause: float = 0.02
    longest_pause: float = 2.0
    give_up_after: float = 5.0


class GrpcClient:
    """A ControlClient of a control plane at `address` (host:port or unix:path). Call `start` first.

    `random` gives numbers in [0, 1), `sleep` waits for seconds.
    """

    def __init__(
        self,
        address: str,
        random: Callable[[], float],
        settings: GrpcClientSettings | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._address = address
        self._random = random
        self._settings = settings or GrpcClientSettings()
        self._sleep = sleep
        self._calls = Calls(self._settings.max_calls)
        self._unsent: deque[Command] = deque()
        #: What to tell about each partition in the next message: subscribe or unsubscribe.
        self._wishes: dict[PartitionKey, bool] = {}
        self._wake = asyncio.Event()
        self._subscriptions = Subscriptions(
            self._settings.max_partitions,
            lambda keys: self._wish(keys, True),
            lambda keys: self._wish(keys, False),
        )
        self._failure: ControlPlaneUnavailable | None = None
        self._give_up: asyncio.TimerHandle | None = None
        self._is_connected = False
        self._write_error: Exception | None = None
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to connect; calls made meanwhile wait."""
        self._arm()
        self._task = asyncio.create_task(self._run())

    @property
    def cluster(self) -> ClusterView:
        """Topics and live agents."""
        return self._subscriptions.cluster

    async def call(self, command: Command) -> Reply:
        """As ControlClient says."""
        if self._failure is not None:
            raise ControlPlaneUnavailable(str(self._failure))
        future = self._calls.add(command)
        self._unsent.append(command)
        self._wake.set()
        try:
            return await future
        finally:
            self._calls.forget(command.command_id)

    def give_up_unsent(self, reason: str) -> None:
        """As ControlClient says."""
        unsent = [command.command_id for command in self._unsent]
        self._unsent.clear()
        for command_id in unsent:
            self._calls.refuse(command_id, ControlPlaneUnavailable(reason))

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """As ControlClient says."""
        return self._subscriptions.partition(topic_id, partition)

    async def close(self) -> None:
        """As ControlClient says."""
        if self._is_closed:
            return
        self._is_closed = True
        self._disarm()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._subscriptions.interrupt()
        self._fail(ControlPlaneUnavailable("this client is closed"))

    async def _run(self) -> None:
        try:
            await self._serve_forever()
        except Exception as error:
            _log.critical("the control client stops", exc_info=error)
            self._subscriptions.interrupt()
            self._fail(ControlPlaneUnavailable(f"this client has failed: {error!r}"))

    async def _serve_forever(self) -> None:
        """Sessions, one after the other."""
        failures = 0
        while True:
            async with grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS) as channel:
                reason = await self._serve(channel)
            failures = 1 if self._is_connected else failures + 1
            self._interrupt(reason)
            await self._sleep(self._pause(failures))

    async def _serve(self, channel: grpc.aio.Channel) -> str:
        """One session, from its first message to its end; why it ended."""
        stream: Any = ControlPlaneStub(channel).Session()  # type: ignore[no-untyped-call]
        writer: asyncio.Task[None] | None = None
        try:
            while True:
                response = await stream.read()
                if response is grpc.aio.EOF:  # type: ignore[attr-defined]
                    return f"the control plane at {self._address} ended the session"
                if writer is None:
                    self._connected()
                    writer = asyncio.create_task(self._write(stream))
                self._receive(response)
        except grpc.aio.AioRpcError as error:
            return f"no control plane at {self._address}: {error.details()}"
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._write_error is None or (task is not None and task.cancelling()):
                raise
            return f"nothing could be sent any more: {self._write_error!r}"
        finally:
            stream.cancel()
            if writer is not None:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, stream: Any) -> None:
        """Sends what has gathered, again and again. The reader hears how the stream ended.

        Whatever else ends this ends the session: nothing of it would be sent any more, and calls would wait for ever.
        """
        self._write_error = None
        try:
            while True:
                await self._wake.wait()
                await stream.write(self._next_request())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return
        except Exception as error:
            _log.error("the session ends and another is made: sending failed", exc_info=error)
            self._write_error = error
            stream.cancel()

    def _next_request(self) -> SessionRequest:
        request = SessionRequest()
        for (topic_id, partition), is_wanted in self._wishes.items():
            keys = request.subscribe if is_wanted else request.unsubscribe
            keys.append(TopicPartition(topic_id=topic_id, partition=partition))
        self._wishes.clear()
        size = 0
        while (
            self._unsent
            and len(request.commands) < self._settings.max_message_commands
            and size < self._settings.max_message_bytes
        ):
            command = self._unsent.popleft()
            command_size = command.ByteSize()
            if command_size > self._settings.max_command_bytes:
                self._calls.refuse(command.command_id, self._too_large(command_size))
            elif self._calls.is_waiting(command.command_id):
                size += command_size
                request.commands.append(command)
        if not self._unsent:
            self._wake.clear()
        return request

    def _too_large(self, command_size: int) -> CommandRefused:
        """The service would end the session over it, and with it the calls of everybody else."""
        bound = self._settings.max_command_bytes
        message = f"a command of {command_size} bytes is beyond the bound of {bound}: send less"
        return CommandRefused(ErrorCode.INVALID_REQUEST, message)

    def _receive(self, response: SessionResponse) -> None:
        self._subscriptions.apply(response.partitions, response.cluster)
        self._calls.resolve(response.replies)

    def _connected(self) -> None:
        self._disarm()
        self._is_connected = True
        self._failure = None
        self._subscriptions.restore()
        self._wishes = dict.fromkeys(self._subscriptions.keys(), True)
        self._wake.set()

    def _interrupt(self, reason: str) -> None:
        """The session is lost, or none came about."""
        error = ControlPlaneUnavailable(reason)
        self._subscriptions.interrupt()
        self._calls.fail(error, kept={command.command_id for command in self._unsent})
        if self._is_connected:
            self._is_connected = False
            self._arm()
        elif self._failure is not None:
            self._failure = error

    def _wish(self, keys: Sequence[PartitionKey], is_wanted: bool) -> None:
        for key in keys:
            self._wishes[key] = is_wanted
        self._wake.set()

    def _pause(self, failures: int) -> float:
        longest = self._settings.first_pause * float(2 ** min(failures, 30))
        return min(self._settings.longest_pause, longest) * (0.5 + self._random() / 2)

    def _arm(self) -> None:
        def give_up() -> None:
            seconds = self._settings.give_up_after
            self._fail(
                ControlPlaneUnavailable(
                    f"no control plane at {self._address} for {seconds:g} s: is it running?"
                )
            )

        loop = asyncio.get_running_loop()
        self._give_up = loop.call_later(self._settings.give_up_after, give_up)

    def _disarm(self) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None

    def _fail(self, error: ControlPlaneUnavailable) -> None:
        self._failure = error
        self._unsent.clear()
        self._calls.fail(error)
        self._subscriptions.fail(error)
