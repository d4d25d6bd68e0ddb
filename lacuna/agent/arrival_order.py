"""Lets a connection's requests be prepared concurrently, and then proceed in the order of their arrival (S12)."""

import asyncio


class ArrivalOrder:
    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None

    def add(self) -> "Arrival":
        """Add a request after all earlier ones, and return its place in the order. The caller must `end` it."""
        before, self._last = self._last, asyncio.get_running_loop().create_future()
        return Arrival(self, before, self._last)

    def ended(self, done: asyncio.Future[None]) -> None:
        """Record that an arrival has ended. Called by `Arrival.end`."""
        done.set_result(None)
        if self._last is done:
            self._last = None


class Arrival:
    """A request's place in its connection's order."""

    __slots__ = ("_before", "_done", "_order")

    def __init__(
        self, order: ArrivalOrder, before: asyncio.Future[None] | None, done: asyncio.Future[None]
    ) -> None:
        self._order = order
        self._before = before
        self._done = done

    async def is_next(self) -> None:
        """Wait until all earlier requests have ended."""
        if self._before is not None:
            await asyncio.shield(self._before)

    def end(self) -> None:
        """End this request. Once all earlier ones have ended, the next proceeds in a later loop iteration."""
        if self._before is None or self._before.done():
            self._order.ended(self._done)
        else:
            self._before.add_done_callback(lambda _: self._order.ended(self._done))
