"""A clock that a test moves by hand."""

import asyncio


class ManualClock:
    """Stands still until `advance`, which wakes at once whoever is due."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._passed_ms = 0
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []
        #: How long each look at what has passed takes.
        self.pace_ms = 0

    def now_ms(self) -> int:
        """The time that was set."""
        return self._now_ms

    def passed_ms(self) -> float:
        """The sum of what it was moved forwards."""
        self._passed_ms += self.pace_ms
        return self._passed_ms

    @property
    def sleepers(self) -> list[int]:
        """When each of those who wait is due, the first one first."""
        return sorted(wake_ms for wake_ms, _ in self._sleepers)

    def set(self, by_ms: int) -> None:
        """Moves the time as an operator may, back too: none passes."""
        self._now_ms += by_ms

    def advance(self, duration_ms: int) -> None:
        """Lets time pass, and wakes the sleepers that are due."""
        self._now_ms += duration_ms
        self._passed_ms += duration_ms
        due = [future for wake_ms, future in self._sleepers if wake_ms <= self._now_ms]
        self._sleepers = [item for item in self._sleepers if item[0] > self._now_ms]
        for future in due:
            if not future.done():
                future.set_result(None)

    def wake_first(self) -> None:
        """Lets time pass until the first sleeper is due."""
        self.advance(self.sleepers[0] - self._now_ms)

    async def sleep(self, duration_ms: int) -> None:
        """Waits for `advance`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now_ms + duration_ms, future))
        await future
