"""A ControlClient over a Session stream, which sends many commands in each message.

While one message is being sent, commands are collected for the next. When the stream ends, all views are stale until
there is a leader again (`search`). The client then renews its subscriptions, and resends unanswered commands that may
be decided twice and are not suspected of having silenced the leader (`repeating`). Other calls whose commands were sent
fail, since their outcome is unknown. After `give_up_after` seconds without a session, calls and `ready` fail
immediately.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lacuna.base.pace import Burst
from lacuna.controlplane.client.calls import Calls
from lacuna.controlplane.client.parts import call_in_parts
from lacuna.controlplane.client.protocol import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.client.repeating import may_be_repeated, may_have_ended_a_leader
from lacuna.controlplane.client.search import LeaderSearch, SearchLimits
from lacuna.controlplane.client.streams import Connect, Resolve, Sleep, StreamBroken, WatchedStream
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.shared.contract import own_contract, why_not
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, named
from lacuna.controlplane.v1.control_pb2 import Command, Reply, SessionRequest, SessionResponse

_log = logging.getLogger("lacuna.controlplane.client")

#: The maximum number of event loop iterations for which a message waits for more commands.
_MAX_ITERATIONS: Final = 4
#: After processing a message about more partitions than this, let other work run before the next message.
_MANY_TOLD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits(SearchLimits):
    """Limits on subscribed partitions, waiting calls, and the contents of a message. Times are in seconds.

    `max_message_wishes` limits how many partitions a message subscribes to and unsubscribes from, since both ends
    process them in small steps. A message may exceed `max_message_bytes` by one command of at most `max_command_bytes`,
    which the service accepts.
    """

    max_partitions: int = 10_000
    max_calls: int = 100_000
    max_message_commands: int = 1_000
    max_message_wishes: int = 1_000
    max_message_bytes: int = 4 << 20
    max_command_bytes: int = 32 << 20
    give_up_after: float = 10.0
    #: How many times a command is resent after sessions end.
    max_repeats: int = 3
    #: A command that may silence a leader is not resent if it was unanswered for this long.
    suspect_after: float = 1.0


async def _itself(address: str) -> Sequence[str]:
    return (address,)


class SessionClient:
    """A ControlClient for the leader among the control planes at `addresses`. Call `start` first.

    `connect` opens streams, `random` returns numbers in [0, 1), and `sleep` takes seconds.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        connect: Connect,
        random: Callable[[], float],
        limits: SessionLimits | None = None,
        sleep: Sleep = asyncio.sleep,
        resolve: Resolve = _itself,
    ) -> None:
        self._addresses = tuple(addresses)
        self._limits = limits or SessionLimits()
        self._search = LeaderSearch(
            addresses,
            connect,
            resolve,
            self._serve,
            self._not_found,
            self._limits,
            random,
            sleep,
        )
        self._calls = Calls(self._limits.max_calls)
        self._unsent: deque[Command] = deque()
        #: This session's unanswered commands by id, in the order of sending, each with the time of sending.
        self._sent: dict[int, tuple[Command, float]] = {}
        #: How many times each unanswered command has been resent. Commands sent only once are not included.
        self._repeats: dict[int, int] = {}
        self._reason = "nothing has been tried yet"
        self.journal_position = 0
        #: What the next message requests for each partition: True to subscribe, False to unsubscribe.
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
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin connecting in the background. Calls wait until there is a session."""
        self._arm()
        self._task = asyncio.create_task(self._run())

    @property
    def cluster(self) -> ClusterView:
        return self._subscriptions.cluster

    @property
    def is_shut_out(self) -> bool:
        return self._search.is_shut_out

    async def call(self, command: Command) -> Reply:
        return await call_in_parts(self._call, command)

    async def _call(self, command: Command) -> Reply:
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
            await self._search.run()
        except Exception as error:
            _log.critical(
                "the control plane client is stopping because of an unexpected error; please report it",
                exc_info=error,
            )
            self._subscriptions.interrupt()
            self._fail(ControlPlaneUnavailable(f"this client has failed: {error!r}"))

    async def _serve(self, address: str, stream: WatchedStream, first: SessionResponse) -> bool:
        """Run one session until it ends, and return whether the control plane was usable."""
        if why := why_not(first.contract):
            self._not_found(f"the control plane at {address} cannot be used: {why}")
            return False
        try:
            opening = await self._opening(address, stream, first)
        except StreamBroken as error:
            self._not_found(f"the control plane at {address} has ended the session: {error}")
            return False
        if self._is_older(opening):
            self._not_found(self._why_older(address, opening))
            return False
        self._connected()
        self._receive(opening)
        writing = asyncio.create_task(self._write(stream))
        try:
            while not self._is_older(response := await stream.read()):
                self._receive(response)
                if (
                    len(response.partitions) > _MANY_TOLD
                ):  # the next message may have arrived as well
                    await asyncio.sleep(0)
            reason = self._why_older(address, response)
        except StreamBroken as error:
            reason = f"the session with the control plane at {address} has ended: {error}"
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        self._interrupt(reason)
        return True

    async def _opening(
        self, address: str, stream: WatchedStream, first: SessionResponse
    ) -> SessionResponse:
        """Return the message with the snapshot of the cluster, which is sent once the journal is durable.

        Empty messages may precede it. No command is sent before it arrives, because an agent that finds itself hidden
        in the snapshot drops its unsent commands (ADR 18). So a caller that stops waiting while the cluster is not
        current, such as an agent's Members, can miss only replies from an ended session. Raises StreamBroken.
        """
        response = first
        while not response.cluster:
            self._not_found(
                f"the control plane at {address} is the leader, but is waiting for its journal"
            )
            response = await stream.read()
        return response

    def _not_found(self, reason: str) -> None:
        if not self._is_connected:
            self._reason = reason
            if self._failure is not None:
                self._failure = ControlPlaneUnavailable(reason)

    def _is_older(self, response: SessionResponse) -> bool:
        """Whether the journal is shorter than in earlier replies, a loss that must not go unnoticed."""
        return 0 < response.journal_position < self.journal_position

    def _why_older(self, address: str, response: SessionResponse) -> str:
        return (
            f"the journal of the control plane at {address} ends at position {response.journal_position}, but had "
            f"reached {self.journal_position}: it was damaged, cut short, or restored from an older copy. Restore the "
            "complete journal, or start the control plane with --accept-loss"
        )

    async def _write(self, stream: WatchedStream) -> None:
        """Send the collected commands and subscriptions whenever there are any.

        If the stream ends, the reader learns the reason. Any other error ends the session, since calls would otherwise
        wait forever.
        """
        try:
            while True:
                await self._wake.wait()
                # The commands and wishes of a burst share a message.
                burst = Burst(_MAX_ITERATIONS)
                while burst.goes_on(len(self._unsent) + len(self._wishes)):
                    await asyncio.sleep(0)
                await stream.write(self._next_request())
        except StreamBroken:
            return
        except Exception as error:
            _log.error(
                "sending failed: this session ends, and a new one will be opened", exc_info=error
            )
            stream.give_up(f"sending failed with {error!r}")

    def _next_request(self) -> SessionRequest:
        request = SessionRequest()
        if not self._is_introduced:
            self._is_introduced = True
            request.contract.CopyFrom(own_contract())
        for key in [*islice(self._wishes, self._limits.max_message_wishes)]:
            keys = request.subscribe if self._wishes.pop(key) else request.unsubscribe
            keys.append(named(key))
        size = 0
        now = asyncio.get_running_loop().time()
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
                self._sent[command.command_id] = command, now
        if not self._unsent and not self._wishes:
            self._wake.clear()
        return request

    def _too_large(self, command_size: int) -> CommandRefused:
        """Return the error for a command so large that the service would end the session, failing all other calls."""
        bound = self._limits.max_command_bytes
        message = (
            f"a command of {command_size} bytes exceeds the limit of {bound}: send less at a time"
        )
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
        """Mark all views as stale after a session has ended, and resend or fail the commands that were sent."""
        error = ControlPlaneUnavailable(reason)
        self._subscriptions.interrupt()
        self._reason = reason
        self._refuse_suspects(reason)
        sent = [command for command, _ in self._sent.values()]
        self._unsent.extendleft(filter(self._may_repeat, reversed(sent)))
        self._sent.clear()
        self._calls.fail(error, kept={command.command_id for command in self._unsent})
        self._is_connected = False
        self._arm()

    def _refuse_suspects(self, reason: str) -> None:
        """Fail the calls whose commands may have silenced the leader, so that they do not silence the next one."""
        latest = asyncio.get_running_loop().time() - self._limits.suspect_after
        for command, since in list(self._sent.values()):
            if since <= latest and may_have_ended_a_leader(command):
                verb = command.WhichOneof("verb")
                message = (
                    f"{verb} was in progress when the control plane fell silent ({reason}), and "
                    "may be the cause. It will not be sent to the next leader: request less at a time"
                )
                del self._sent[command.command_id]
                refused = CommandRefused(ErrorCode.UNKNOWN_SERVER_ERROR, message)
                self._calls.refuse(command.command_id, refused)

    def _may_repeat(self, command: Command) -> bool:
        """Whether to resend a command. A command that ends every leader must not be resent forever."""
        repeats = self._repeats.get(command.command_id, 0) + 1
        self._repeats[command.command_id] = repeats
        return repeats <= self._limits.max_repeats and may_be_repeated(command)

    def _wish(self, keys: Sequence[PartitionKey], is_wanted: bool) -> None:
        for key in keys:
            self._wishes[key] = is_wanted
        self._wake.set()

    def _arm(self) -> None:
        def give_up() -> None:
            seconds = self._limits.give_up_after
            self._fail(
                ControlPlaneUnavailable(
                    f"no control plane answered at {','.join(self._addresses)} for {seconds:g} s: check "
                    f"that one is running. The last event: {self._reason}"
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
