"""One event loop on virtual time that runs many processes in an order drawn from a seed.

    loop = SimulatedLoop(random.Random(7))
    process = loop.process("agent-1")
    process.start(main())                 # a task of that process
    loop.run(until=30.0)                  # 30 simulated seconds
    process.kill()                        # none of its callbacks ever runs again

Within a process, callbacks run in asyncio's order. The next process is drawn at random, so every interleaving of
processes can occur. Executor work runs in the loop, at a random time. Everything that a callback schedules belongs to
its own process. `call_in` schedules in another process, as a network does.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
import random
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, cast
from unittest import mock

if TYPE_CHECKING:
    from concurrent.futures import Executor

P = ParamSpec("P")

#: What one callback takes, in simulated seconds: time passes even if everybody only computes.
STEP = 20e-6


class Handle:
    """A scheduled callback: `asyncio.Handle` and `TimerHandle` in one."""

    __slots__ = ("_at", "args", "call", "context", "is_cancelled", "process", "source")

    def __init__(
        self,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        process: Process,
        at: float,
    ) -> None:
        self.call: Callable[..., object] | None = call
        self.args = args
        self.context = context
        self.process = process
        self.is_cancelled = False
        #: The link whose messages keep their order, or None.
        self.source: object = None
        self._at = at

    def cancel(self) -> None:
        """Cancel the callback."""
        self.is_cancelled = True
        self.call = None
        self.args = ()

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """Return the simulated time at which it is due."""
        return self._at


class Held(BaseException):
    """Raised by executor work that has to wait. The work starts over once `released` is called.

    Until then, it occupies its thread. No `except Exception` catches it.
    """

    def __init__(self) -> None:
        super().__init__("the work is held")
        self.released: Callable[[], None] = _nothing


class Process:
    """Everything that runs, pauses and dies together."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.is_queued = False
        self.clock_ahead_ms = 0
        self.asleep_ms = 0
        #: When an agent in it last planned a fetch without a control plane (adr/0034): its bounds may be of any age.
        self.read_on_at = -math.inf
        #: How fast its machine counts the time that passes.
        self.pace = 1.0
        #: When it was paused last, and when it went on.
        self.paused_at = self.went_on_at = -math.inf
        #: By session: the leases whose renewals have arrived and were not read yet.
        self.renewed: list[list[int]] = []
        #: Called when it is killed, in no process: the kernel closes its sockets.
        self.on_killed: list[Callable[[], None]] = []
        self._ready: deque[Handle] = deque()
        # Held until the run ends: a task that is collected would run its `finally` blocks, which the dead do not do.
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, main: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        """Start a task in this process."""
        with self.loop.inside(self):
            return self.loop.create_task(main, name=name)

    def kill(self) -> None:
        """End it between two callbacks, as SIGKILL does."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.loop.forget(self)
        self._ready.clear()
        callbacks, self.on_killed = self.on_killed, []
        for callback in callbacks:
            callback()

    def pause(self) -> None:
        """Stop it as SIGSTOP does. Arriving messages wait."""
        self.is_paused = True
        self.paused_at = self.loop.time()
        self.loop.forget(self)

    def go_on(self) -> None:
        """Continue it after `pause`."""
        self.is_paused = False
        self.went_on_at = self.loop.time()
        self._mix()
        if self._ready:
            self.loop.queue(self)

    def _mix(self) -> None:
        """Shuffle messages that arrived over different connections, since a kernel reports sockets in any order."""
        sources: dict[object, deque[Handle]] = {}
        for handle in self._ready:
            sources.setdefault(handle.source, deque()).append(handle)
        waiting = list(sources.values())
        self._ready.clear()
        while waiting:
            at = int(self.loop.draw() * len(waiting))
            self._ready.append(waiting[at].popleft())
            if not waiting[at]:
                del waiting[at]

    def now_ms(self) -> int:
        """Return the time of this process's clock, in milliseconds since 1970."""
        return self.loop.now_ms + self.asleep_ms + self.clock_ahead_ms

    def passed_ms(self) -> float:
        """Return the time of the clock that cannot be set."""
        return self.loop.time() * 1000 * self.pace + self.asleep_ms

    async def sleep(self, duration_ms: int) -> None:
        """Wait, as the clocks of agents and control planes do."""
        await asyncio.sleep(duration_ms / 1000 / self.pace)

    def add(self, handle: Handle) -> None:
        """Run a callback after those that are already ready."""
        self._ready.append(handle)
        if not self.is_queued and not self.is_paused:
            self.loop.queue(self)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until the run ends."""
        self._tasks.append(task)
        if len(self._tasks) % 512 == 0:
            self._tasks = [each for each in self._tasks if not each.done()]

    def pending(self) -> list[asyncio.Task[Any]]:
        """Return its unfinished tasks."""
        return [each for each in self._tasks if not each.done()]

    def forget_tasks(self) -> None:
        """Release its tasks after the run."""
        self._tasks.clear()

    def next(self) -> Handle:
        """Take its first ready callback."""
        return self._ready.popleft()

    @property
    def has_ready(self) -> bool:
        """Return whether a callback is ready."""
        return bool(self._ready)


class _Inside:
    __slots__ = ("_before", "_loop", "_process")

    def __init__(self, loop: SimulatedLoop, process: Process) -> None:
        self._loop = loop
        self._process = process

    def __enter__(self) -> None:
        self._before = self._loop.current
        self._loop.current = self._process

    def __exit__(self, *_: object) -> None:
        self._loop.current = self._before


class SimulatedLoop(asyncio.AbstractEventLoop):
    """See the module. `randomness` orders the processes and draws the duration of executor work."""

    def __init__(self, randomness: random.Random, epoch_ms: int = 1_760_000_000_000) -> None:
        self._random = randomness.random
        self._now = 0.0
        self._epoch_ms = epoch_ms
        self._order = 0
        self._timers: list[tuple[float, int, Handle]] = []
        self._runnable: list[Process] = []
        self._executors: dict[tuple[Process, int], _SimulatedExecutor] = {}
        #: The world outside of all processes: the network, the bucket, the disk.
        self.world = Process(self, "world")
        self.current = self.world
        self.processes: list[Process] = [self.world]
        self.steps = 0
        #: What tasks raised that nobody awaited, with the process's name.
        self.unhandled: list[tuple[str, str]] = []
        self.listen: Callable[..., Any] = _no_network
        self.connect: Callable[..., Any] = _no_network
        self._is_stopped = False

    def process(self, name: str) -> Process:
        """Return a new process."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    def inside(self, process: Process) -> _Inside:
        """Return a context in which everything scheduled belongs to `process`."""
        return _Inside(self, process)

    @property
    def now_ms(self) -> int:
        """Return the true time, in milliseconds since 1970."""
        return self._epoch_ms + int(self._now * 1000)

    def stop(self) -> None:
        """Make `run` return after this callback."""
        self._is_stopped = True

    def run(self, until: float) -> None:
        """Run until the simulated time `until`, or until `stop`."""
        self._is_stopped = False
        asyncio.events._set_running_loop(self)
        try:
            self._run(until)
        finally:
            asyncio.events._set_running_loop(None)

    def _run(self, until: float) -> None:  # noqa: C901 - the hot loop of everything
        timers, runnable, draw = self._timers, self._runnable, self._random
        while self._now < until and not self._is_stopped:
            while timers and timers[0][0] <= self._now:
                handle = heapq.heappop(timers)[2]
                if not handle.is_cancelled and handle.process.is_alive:
                    handle.process.add(handle)
            if not runnable:
                if not timers:
                    self._now = until
                    return
                self._now = max(self._now, min(timers[0][0], until))
                continue
            number = len(runnable)
            at = int(draw() * number) if number > 1 else 0
            process = runnable[at]
            handle = process.next()
            if not process.has_ready:
                process.is_queued = False
                runnable[at] = runnable[-1]
                runnable.pop()
            call = handle.call
            if call is None:
                continue
            self.steps += 1
            self._now += STEP
            self.current = process
            try:
                if handle.context is None:
                    call(*handle.args)
                else:
                    handle.context.run(call, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.unhandled.append((process.name, repr(error)))
            self.current = self.world

    def queue(self, process: Process) -> None:
        """Make a process eligible to be drawn."""
        if process.is_alive and not process.is_queued and not process.is_paused:
            process.is_queued = True
            self._runnable.append(process)

    def forget(self, process: Process) -> None:
        """Make a process ineligible to be drawn."""
        if process.is_queued:
            process.is_queued = False
            self._runnable.remove(process)

    def call_in(
        self, process: Process, delay: float, call: Callable[..., object], *args: Any
    ) -> Handle:
        """Run `call` in another process after `delay` seconds."""
        return self._at(self._now + delay, call, args, None, process)

    def _at(
        self,
        when: float,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        process: Process,
    ) -> Handle:
        handle = Handle(call, args, context, process, when)
        if process.is_alive:
            self._order += 1
            heapq.heappush(self._timers, (when, self._order, handle))
        return handle

    def close(self) -> None:
        """Drop everything scheduled. Unfinished tasks end without running any more of their code."""
        self._timers.clear()
        for process in self.processes:
            process.kill()

    def end(self) -> None:
        """Close the loop and release the unfinished tasks. The effects of their `finally` blocks are discarded."""
        self.close()
        logging.disable()
        with mock.patch.object(sys, "unraisablehook"):
            for process in self.processes:
                for task in process.pending():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with contextlib.suppress(Exception):
                        task.get_coro().close()
                process.forget_tasks()
        logging.disable(logging.NOTSET)

    # asyncio's interface, as far as the product uses it.

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        process = self.current
        handle = Handle(callback, args, context or copy_context(), process, self._now)
        if process.is_alive:
            process.add(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Handle:
        return self._at(self._now + delay, callback, args, context or copy_context(), self.current)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Handle:
        return self._at(when, callback, args, context or copy_context(), self.current)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(
            cast(Coroutine[Any, Any, Any], coro),
            loop=self,
            name=None if name is None else str(name),
            context=context,
        )
        self.current.keep(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        key = (self.current, id(executor))
        threads = self._executors.get(key)
        if threads is None:
            workers = int(getattr(executor, "_max_workers", 8))
            threads = self._executors[key] = _SimulatedExecutor(self, executor, workers)
        threads.submit(future, func, args)
        return future

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_: object,
    ) -> Any:
        return self.listen(self.current, protocol_factory, host, port)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_: object,
    ) -> Any:
        return await self.connect(protocol_factory, host, port)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        source = context.get("task") or context.get("future")
        error = context.get("exception")
        if error is not None:
            self.unhandled.append((str(source), repr(error)))

    def draw(self) -> float:
        """Return a random number from the loop's own source: at least 0 and below 1."""
        return self._random()


class _SimulatedExecutor:
    """The threads of one executor: at most `workers` pieces of work at once, each with a duration."""

    def __init__(self, loop: SimulatedLoop, executor: Executor | None, workers: int) -> None:
        self._loop = loop
        self._executor = executor  # so that its id is not used again
        self._workers = workers
        self._busy = 0
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = (
            deque()
        )

    def submit(
        self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        self._waiting.append((future, func, args))
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._busy < self._workers:
            future, func, args = self._waiting.popleft()
            if future.cancelled():
                continue
            self._busy += 1
            loop = self._loop
            # One in thirty takes ten times as long.
            scale = 0.05 if loop.draw() < 1 / 30 else 0.005
            before, after = loop.draw() * scale, loop.draw() * scale
            # A request to the store that left before the process died still has its effect.
            owner = loop.current if loop.draw() < 0.5 else loop.world
            loop.call_in(owner, before, self._work, loop.current, after, future, func, args)

    def _work(
        self,
        process: Process,
        after: float,
        future: asyncio.Future[Any],
        func: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        result, error = None, None
        with self._loop.inside(process):
            try:
                result = func(*args)
            except Held as held:
                held.released = partial(self._work, process, after, future, func, args)
                return
            except Exception as raised:
                error = raised
        self._loop.call_in(process, after, self._done, future, result, error)

    def _done(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        self._busy -= 1
        if not future.cancelled():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._begin()


def on_virtual_time(
    test: Callable[P, Coroutine[Any, Any, None]], within: float = 3_600.0
) -> Callable[P, None]:
    """Run a coroutine function, such as a test, in a separate loop for at most this many simulated seconds."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = SimulatedLoop(random.Random(1))  # type: ignore[abstract]
        task = loop.process("test").start(test(*args, **kwargs))
        task.add_done_callback(lambda _: loop.stop())
        loop.run(within)
        is_done = task.done()
        loop.end()
        if not is_done:
            raise TimeoutError(f"it takes longer than {within:g} simulated seconds")
        task.result()
        assert loop.unhandled == []

    return run


def _nothing() -> None:
    """Hold nothing yet."""


def _no_network(*_: object) -> Awaitable[None]:
    raise RuntimeError("this loop has no network")
