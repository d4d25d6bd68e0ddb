"""Stops serving clients while this agent cannot reach the leading control plane (adr/0031).

The control plane of `lacuna up` can be reached only by its own process. If the control plane of a second such process
has taken over the journal, the agents of the first can neither write nor read new records. They turn clients away, so
that clients try the other bootstrap address that they were given.
"""

import asyncio
import logging
from typing import Final

from lacuna.agent.server import AgentServer
from lacuna.controlplane.client import ControlClient

log = logging.getLogger("lacuna.agent")

_LOOK_SECONDS: Final = 0.5


class Aside:
    """Checks twice a second whether the leading control plane can be reached."""

    def __init__(self, control: ControlClient, server: AgentServer) -> None:
        self._control = control
        self._server = server
        self._last_error = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="aside")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._server.is_listening and self._control.is_shut_out:
                self._step_aside()
            elif not self._server.is_listening and self._control.cluster.is_current:
                await self._come_back()

    def _step_aside(self) -> None:
        log.warning(
            "this agent cannot reach the control plane that is now the leader, and will serve "
            "no clients until that control plane stops"
        )
        self._server.suspend()
        # The clients may repeat their requests at other agents before this agent has a session again.
        self._control.give_up_unsent(
            "clients were disconnected, because this agent cannot reach the control plane that "
            "is now the leader"
        )

    async def _come_back(self) -> None:
        try:
            await self._server.resume()
        except OSError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                log.warning("cannot listen for clients again, retrying: %s", error)
            return
        self._last_error = ""
        log.warning(
            "serving clients again at %s:%d",
            *self._server.context.settings.listeners[0].endpoint(self._server.port),
        )
