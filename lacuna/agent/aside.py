"""Serves no clients while a control plane leads that this agent cannot reach (adr/0031).

The control plane of a `lacuna up` is reached by its own process only. If a second one has taken the journal over, the
agents of the first could neither write nor read anything new, and their clients would stay with them. A client that
cannot connect here goes to the other address that it was given.
"""

import asyncio
import logging
from typing import Final

from lacuna.agent.server import AgentServer
from lacuna.controlplane.client import ControlClient

log = logging.getLogger("lacuna.agent")

_LOOK_SECONDS: Final = 0.5


class Aside:
    """Looks twice a second whether a control plane leads that cannot be reached."""

    def __init__(self, control: ControlClient, server: AgentServer) -> None:
        self._control = control
        self._server = server
        self._last_error = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="aside")

    async def stop(self) -> None:
        """Look no more."""
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
            "another control plane leads, and it cannot be reached from here: serving no clients until it has ended"
        )
        self._server.suspend()
        # Its clients may ask for the same elsewhere before there is a session here again.
        self._control.give_up_unsent("clients were sent away, as another control plane leads")

    async def _come_back(self) -> None:
        try:
            await self._server.resume()
        except OSError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                log.warning("cannot serve clients again, trying until it can: %s", error)
            return
        self._last_error = ""
        log.warning(
            "serving clients again at %s:%d",
            *self._server.context.settings.listeners[0].endpoint(self._server.port),
        )
