"""Trust: decides whether clients may be answered from the views, which depends on when the views were last known to be
correct (S7).

Changes made through other agents reach an agent over its session, a moment after those agents have acknowledged them.
An agent that was suspended, or whose session stalls, does not know that its views are out of date. When it resumes, it
could answer from stale views before it has read the changes made in the meantime. Therefore, every reply to a call
confirms the views as of the start of the call, since a reply arrives after all changes that it reflects (adr/0003).
Time is that of the event loop, which advances while the process is suspended. Renewing the lease is such a call, and a
request that needs more recent views makes such a call itself.

Views that are not trusted still show the records that were known before, and the record at an offset never changes.
While no control plane can be reached, fetches therefore continue to read from such views, but no answer states that the
log ends (adr/0034).
"""

import asyncio
import math
from typing import Final

from lacuna.agent.metrics import AgentMetrics
from lacuna.controlplane.client import ControlClient, confirm

#: How long fetches continue without a control plane. After that, objects that were replaced in the meantime are deleted
#: (COLLECTION_GRACE_MS), and deleted records should be gone.
READ_ON_SECONDS: Final = 300.0


class Trust:
    """Tracks the age of one agent's views. They are trusted for `lasts` seconds, the duration of a lease."""

    def __init__(self, control: ControlClient, metrics: AgentMetrics) -> None:
        self.lasts = math.inf
        #: Whether the control plane, which cannot be reached, has sent this agent's clients to other agents.
        self.is_replaced = False
        self._control = control
        self._metrics = metrics
        self._as_of = -math.inf
        self._asking: asyncio.Task[None] | None = None

    def renew(self, as_of: float) -> None:
        """Record that the views are at least as new as `as_of`, the loop time at which the answered call was made."""
        self._as_of = max(self._as_of, as_of)

    def holds(self, since: float = -math.inf) -> bool:
        """Whether the views are trusted now, and include every change answered anywhere before `since` (loop time)."""
        now = asyncio.get_running_loop().time()
        return self._as_of >= since and self._as_of >= now - self.lasts

    def is_alone(self, longest: float) -> bool:
        """Whether there is no control plane to call, although there was one within the last `longest` seconds.

        This is also false once other agents are known to serve this agent's clients.
        """
        now = asyncio.get_running_loop().time()
        is_cut_off = not self._control.cluster.is_current
        return is_cut_off and not self.is_replaced and self._as_of >= now - longest

    async def restore(self, since: float = -math.inf) -> None:
        """Wait until `holds(since)`. Concurrent waiters share one call. Raises ControlPlaneUnavailable."""
        while not self.holds(since):
            if self._asking is None:
                self._asking = asyncio.get_running_loop().create_task(self._ask(), name="trust")
                # If all waiters are cancelled, no other code retrieves its error.
                self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
            asking = self._asking
            # Not a shield: Python 3.14 logs the exception of a shielded task once its waiter is cancelled.
            await asyncio.wait([asking])
            asking.result()

    async def _ask(self) -> None:
        began = asyncio.get_running_loop().time()
        self._metrics.views_confirmed += 1
        try:
            await confirm(self._control)
        finally:
            self._asking = None
        self.renew(began)
