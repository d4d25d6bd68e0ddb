"""Requests of a connection that are prepared side by side and go on in the order in which they came (S12)."""

import asyncio


class Turns:
    """The order of one connection, which bounds how many requests stand in it."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None

    def take(self) -> "Turn":
        """The place behind all that were taken; whoever takes one ends it."""
        before, self._last = self._last, asyncio.get_running_loop().create_future()
        return Turn(self, before, self._last)

    def ended(self, turn: asyncio.Future[None]) -> None:
        """`turn` is over; what waits for it goes on."""
        turn.set_result(None)
        if self._last is turn:
            self._last = None


class Turn:
    """One request's place, from its beginning to where it goes on."""

    __slots__ = ("_before", "_done", "_turns")

    def __init__(
        self, turns: Turns, before: asyncio.Future[None] | None, done: asyncio.Future[None]
    ) -> None:
        self._turns = turns
        self._before = before
        self._done = done

    async def come(self) -> None:
        """Wait until the requests before have gone on."""
        if self._before is not None:
            await asyncio.shield(self._before)

    def end(self) -> None:
        """Let the next one go on, in a later turn of the loop; not before those before this one have."""
        if self._before is None or self._before.done():
            self._turns.ended(self._done)
        else:
            self._before.add_done_callback(lambda _: self._turns.ended(self._done))
