"""A ControlClient over a Session stream that carries many commands in each message.

While one message is being written, commands are collected for the next. When the stream ends, every view becomes
stale, and the client tries one control plane after the other until it finds the leader, with growing pauses. There it
subscribes again, and sends again what was not answered, if the command may be decided twice (`repeating`); other calls
whose command was sent fail, as their outcome is not known. Once the client has been without a session for
`give_up_after` seconds, calls and `ready` fail at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lacuna.controlplane.client.calls import Calls
from lacuna.controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.client.repeating import may_be_repeated
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.shared.contract import own_contract, why_not
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply, SessionRequest, SessionResponse

_log = logging.getLogger("lacuna.controlplane.client")


class StreamBroken(Exception):
    """A stream cannot be used any more, or could not be opened. The message says why."""


class Stream(Protocol):
    """One Session stream, as its client uses it. It is opened by the first `read`."""

    async def read(self) -> SessionResponse | None:
        """Return the next message, or None once the control plane has ended the stream. Raises StreamBroken."""
        ...

    async def write(self, request: SessionRequest) -> None:
        """Send a message. Raises StreamBroken."""
        ...

    def cancel(self) -> None:
        """End the stream; a `read` that waits is cancelled."""
        ...


Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[Stream]]
"""Makes a stream to an address, and closes its connection on leaving."""
Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses for which one stands, as a name does in DNS. Raises OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Bounds on subscribed partitions, waiting calls, and the commands and bytes in a message. Times are in seconds.

    A message can exceed `max_message_bytes` by one command of at most `max_command_bytes`; the service accepts
    messages of that size.
    """

    max_partitions: int = 10_000
    max_calls: int = 100_000
    max_message_commands: int = 1_000
    max_message_bytes: int = 4 << 20
    max_command_bytes: int = 32 << 20
    first_pause: float = 0.02
    longest_pause: float = 0.5
    give_up_after: float = 10.0
    #: How often a command is sent again after its session has ended.
    max_repeats: int = 3
    #: If there are several control planes, one that says nothing for so long is left for the next.
    longest_silence: float = 3.0


async def _itself(address: str) -> Sequence[str]:
    return (address,)


class SessionClient:
    """A ControlClient for whichever control plane at `addresses` leads. Call `start` first.

    `connect` makes streams, `random` returns numbers in [0, 1), and `sleep` takes seconds.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        connect: Connect,
        random: Callable[[], float],
        limits: SessionLimits | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        resolve: Resolve = _itself,
    ) -> None:
        self._addresses = tuple(addresses)
        self._connect = connect
        self._resolve = resolve
        #: Where a standby said that the leader is.
        self._named = ""
        self._random = random
        self._limits = limits or SessionLimits()
        self._sleep = sleep
        self._calls = Calls(self._limits.max_calls)
        self._unsent: deque[Command] = deque()
        #: The commands of this session that somebody waits for, by id, in the order in which they were sent.
        self._sent: dict[int, Command] = {}
        #: How often each of the waiting commands was sent again, if it was.
        self._repeats: dict[int, int] = {}
        self._reason = "nothing was tried yet"
        self.journal_position = 0
        #: Per partition, what the next message asks for: True to subscribe, False to unsubscribe.
        self._wishes: dict[PartitionKey, bool] = {}
        self._wake = asyncio.Event()
        self._subscriptions = Subscriptions(
            self._limits.max_partitions,
            lambda keys: self._wish(keys, True),
            lambda keys: self._wish(keys, False),
        )
        self._failure: ControlPlaneUnavailable | None = None
        self._give_up: asyncio.TimerHandle | None = None
        self._is_connected = False
        self._is_introduced = False
        #: Why we ended the session, if we did.
        self._broken = ""
        self._heard = 0.0
        self._has_choice = False
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start connecting in the background; calls wait until there is a session."""
        self._arm()
        self._task = asyncio.create_task(self._run())

    @property
    def cluster(self) -> ClusterView:
        """The view of topics and live agents."""
        return self._subscriptions.cluster

    async def call(self, command: Command) -> Reply:
        if self._failure is not None:
            raise ControlPlaneUnavailable(str(self._failure))
        future = self._calls.add(command)
        self._unsent.append(command)
        self._wake.set()
        try:
            return await future
        finally:
            self._calls.forget(command.command_id)
            self._sent.pop(command.command_id, None)
            self._repeats.pop(command.command_id, None)

    def give_up_unsent(self, reason: str) -> None:
        unsent = [command.command_id for command in self._unsent]
        self._unsent.clear()
        for command_id in unsent:
            self._calls.refuse(command_id, ControlPlaneUnavailable(reason))

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        return self._subscriptions.partition(topic_id, partition)

    async def close(self) -> None:
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
            _log.critical(
                "the client of the control plane stops after an unexpected error; please report it",
                exc_info=error,
            )
            self._subscriptions.interrupt()
            self._fail(ControlPlaneUnavailable(f"this client has failed: {error!r}"))

    async def _serve_forever(self) -> None:
        """Run one session after another, with a pause whenever nobody was found who leads."""
        rounds = 0
        while True:
            rounds += 1
            for address in await self._candidates():
                if await self._try(address) or (
                    self._named not in ("", address) and await self._try(self._named)
                ):
                    rounds = 1
            await self._sleep(self._pause(rounds))

    async def _candidates(self) -> list[str]:
        """Return where control planes may be now."""
        found: list[str] = []
        for address in self._addresses:
            try:
                found += await self._resolve(address)
            except OSError as error:
                self._interrupt(f"the address of the control plane {address} is not known: {error}")
        self._has_choice = len(found) > 1
        return found

    async def _try(self, address: str) -> bool:
        """Run a session with the control plane at an address, and return whether it was the leader."""
        self._named = ""
        async with self._connect(address) as stream:
            reason = await self._serve(address, stream)
        led = self._is_connected
        self._interrupt(reason)
        return led

    async def _serve(self, address: str, stream: Stream) -> str:
        """Run one session until it ends, and return the reason."""
        tasks: list[asyncio.Task[None]] = []
        self._broken = ""
        self._heard = asyncio.get_running_loop().time()
        if self._has_choice:
            tasks.append(asyncio.create_task(self._watch(stream)))
        try:
            while True:
                response = await stream.read()
                self._heard = asyncio.get_running_loop().time()
                if response is None:
                    return f"the control plane at {address} ended the session"
                if refusal := self._refusal(address, response):
                    return refusal
                if not self._is_connected:
                    self._connected()
                    tasks.append(asyncio.create_task(self._write(stream)))
                self._receive(response)
        except StreamBroken as error:
            return f"no control plane answers at {address}: {error}"
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._broken or (task is not None and task.cancelling()):
                raise
            return f"the session with the control plane at {address} was given up: {self._broken}"
        finally:
            stream.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _refusal(self, address: str, response: SessionResponse) -> str:
        """Return why the control plane that sent this must be left, or "" if it may be served by."""
        if response.HasField("not_leader"):
            self._named = response.not_leader.leader
            return f"the control plane at {address} does not lead, and no other one was found that does"
        if not self._is_connected and (why := why_not(response.contract)):
            return f"the control plane at {address} does not fit: {why}"
        if 0 < response.journal_position < self.journal_position:
            return self._is_older(address, response.journal_position)
        return ""

    async def _watch(self, stream: Stream) -> None:
        """Give the stream up once nothing has come for too long: a control plane that lives sends something."""
        loop = asyncio.get_running_loop()
        while (left := self._heard + self._limits.longest_silence - loop.time()) > 0:
            await self._sleep(left)
        self._give_stream_up(stream, f"it was silent for {self._limits.longest_silence:g} s")

    def _give_stream_up(self, stream: Stream, reason: str) -> None:
        self._broken = reason
        stream.cancel()

    def _is_older(self, address: str, position: int) -> str:
        """Say that the journal is shorter than it was when earlier replies came. Going on would hide the loss."""
        return (
            f"the journal of the control plane at {address} ends at position {position}, but had reached "
            f"{self.journal_position}: it was damaged, cut short, or restored from an older copy. Restore the complete "
            "journal, or start the control plane with --accept-loss"
        )

    async def _write(self, stream: Stream) -> None:
        """Send the collected commands and subscriptions whenever there are any.

        If the stream ends, the reader finds out why. Any other error ends the session, since nothing more would be
        sent on it and calls would wait forever.
        """
        try:
            while True:
                await self._wake.wait()
                await stream.write(self._next_request())
        except StreamBroken:
            return
        except Exception as error:
            _log.error(
                "sending failed: this session ends, and a new one will be opened", exc_info=error
            )
            self._give_stream_up(stream, f"sending failed with {error!r}")

    def _next_request(self) -> SessionRequest:
        request = SessionRequest()
        if not self._is_introduced:
            self._is_introduced = True
            request.contract.CopyFrom(own_contract())
        for (topic_id, partition), is_wanted in self._wishes.items():
            keys = request.subscribe if is_wanted else request.unsubscribe
            keys.append(TopicPartition(topic_id=topic_id, partition=partition))
        self._wishes.clear()
        size = 0
        while (
            self._unsent
            and len(request.commands) < self._limits.max_message_commands
            and size < self._limits.max_message_bytes
        ):
            command = self._unsent.popleft()
            command_size = command.ByteSize()
            if command_size > self._limits.max_command_bytes:
                self._calls.refuse(command.command_id, self._too_large(command_size))
            elif self._calls.is_waiting(command.command_id):
                size += command_size
                request.commands.append(command)
                self._sent[command.command_id] = command
        if not self._unsent:
            self._wake.clear()
        return request

    def _too_large(self, command_size: int) -> CommandRefused:
        """Refuse a command that would make the service end the session and so fail all other calls."""
        bound = self._limits.max_command_bytes
        message = f"a command of {command_size} bytes is beyond the bound of {bound}: send less"
        return CommandRefused(ErrorCode.INVALID_REQUEST, message)

    def _receive(self, response: SessionResponse) -> None:
        self.journal_position = response.journal_position or self.journal_position
        self._subscriptions.apply(response.partitions, response.cluster)
        self._calls.resolve(response.replies)

    def _connected(self) -> None:
        self._disarm()
        self._is_connected = True
        self._is_introduced = False
        self._failure = None
        self._subscriptions.restore()
        self._wishes = dict.fromkeys(self._subscriptions.keys(), True)
        self._wake.set()

    def _interrupt(self, reason: str) -> None:
        """Mark views stale, and send again or fail what was sent: the session ended, or could not be opened."""
        error = ControlPlaneUnavailable(reason)
        self._subscriptions.interrupt()
        self._reason = reason
        self._unsent.extendleft(filter(self._may_repeat, reversed(self._sent.values())))
        self._sent.clear()
        self._calls.fail(error, kept={command.command_id for command in self._unsent})
        if self._is_connected:
            self._is_connected = False
            self._arm()
        elif self._failure is not None:
            self._failure = error

    def _may_repeat(self, command: Command) -> bool:
        """Whether to send a command again that was sent. One that ends whoever decides it must not go round forever."""
        repeats = self._repeats.get(command.command_id, 0) + 1
        self._repeats[command.command_id] = repeats
        return repeats <= self._limits.max_repeats and may_be_repeated(command)

    def _wish(self, keys: Sequence[PartitionKey], is_wanted: bool) -> None:
        for key in keys:
            self._wishes[key] = is_wanted
        self._wake.set()

    def _pause(self, failures: int) -> float:
        longest = self._limits.first_pause * float(2 ** min(failures, 30))
        return min(self._limits.longest_pause, longest) * (0.5 + self._random() / 2)

    def _arm(self) -> None:
        def give_up() -> None:
            seconds = self._limits.give_up_after
            self._fail(
                ControlPlaneUnavailable(
                    f"no control plane at {','.join(self._addresses)} for {seconds:g} s: is it running? "
                    f"The last thing that happened: {self._reason}"
                )
            )

        loop = asyncio.get_running_loop()
        self._give_up = loop.call_later(self._limits.give_up_after, give_up)

    def _disarm(self) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None

    def _fail(self, error: ControlPlaneUnavailable) -> None:
        self._failure = error
        self._unsent.clear()
        self._sent.clear()
        self._calls.fail(error)
        self._subscriptions.fail(error)
