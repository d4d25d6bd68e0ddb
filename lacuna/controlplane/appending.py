"""Writes decided records to the journal, one append at a time. Each append contains all waiting records (group commit).

A leader with a lease must also prove that it was still the leader when it decided on answers that have no records. The
next append proves this; if there is nothing to append, one confirmation proves it for all of these answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from lacuna.base.pace import Burst
from lacuna.controlplane.hot import HotBytes
from lacuna.controlplane.journal.journal import Journal

# An append begins after an iteration of the event loop in which no command has arrived, after this many iterations, or
# once its records reach this many bytes.
_MAX_ITERATIONS: Final = 4
_ENOUGH_BYTES: Final = 16 << 10
#: After an append of at least `_SLOW_APPEND_SECONDS` to a shared journal, the next one is delayed so that clients whose
#: answers depended on it can send their next commands. The delay ends once some have arrived, and then none for
#: `_QUIET_SECONDS`, and lasts at most this share of the append's time. Without it, commands that arrived during the
#: append would be written alone, and two groups of clients would take turns waiting for each other's appends. A client
#: that sends one request at a time is not delayed: its append has one record, and no record is waiting when it ends.
_REST: Final = 1 / 4
#: The longest delay. By then, answers have reached clients through an agent, and their next commands have arrived.
_LONGEST_REST_SECONDS: Final = 0.010
_QUIET_SECONDS: Final = 0.002
_SLOW_APPEND_SECONDS: Final = 0.008


class Appender:
    """Performs the appends of one runtime. Use it only in the runtime's event loop.

    `confirm` is `SharedJournal.confirm` if the journal is shared, and otherwise None. `appended` is called with the
    number of records in an append and their size in bytes, or with zeros after a confirmation. `failed` is called with
    the error from either; after that, no callback is called.
    """

    def __init__(
        self,
        journal: Journal,
        hot: HotBytes,
        confirm: Callable[[int], Awaitable[None]] | None,
        *,
        appended: Callable[[int, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._journal = journal
        self._hot = hot
        self._confirm = confirm
        self._on_appended = appended
        self._on_failed = failed
        self._fencing_token = 0
        self._records: list[bytes] = []
        #: The size in bytes of the records whose append has not begun.
        self.pending_bytes = 0
        #: The position of the last durable record.
        self.durable = 0
        #: Numbers of proofs of leadership: the last one requested, the last one that the current append or confirmation
        #: will give, and the last one given.
        self._proofs_asked = 0
        self._proofs_under_way = 0
        self.proofs = 0
        #: The current append or confirmation; there is only one at a time.
        self._running: asyncio.Future[int] | None = None
        self._began = 0.0
        #: The number of records in the current append, and their bytes.
        self._writing = 0, 0
        #: When the next append may begin, in loop time.
        self._rests_until = 0.0
        #: How many records were waiting when the last append ended.
        self._left_records = 0
        #: How many records were waiting when the append was last postponed.
        self._quiet_records = 0
        self._coming: asyncio.Handle | None = None
        self._is_closing = False
        self._has_stopped = False

    @property
    def pending_records(self) -> int:
        """The number of records whose append has not begun."""
        return len(self._records)

    def start(self, fencing_token: int, durable: int) -> None:
        """Begin after the last record of the journal, at position `durable`."""
        self._fencing_token = fencing_token
        self.durable = durable

    def add(self, record: bytes) -> None:
        self._records.append(record)
        self.pending_bytes += len(record)

    def ask_proof(self) -> int:
        """Request proof that this control plane is the leader now, and return the number of the proof. Once the proof
        has been given, `proofs` is at least that number.
        """
        self._proofs_asked += 1
        return self._proofs_asked

    def append_soon(self) -> None:
        """Begin an append soon, so that it also includes decisions made while commands keep arriving."""
        if self._is_closing:
            self.append_now()
        elif self._is_asked() and self._running is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._rests_until:
                self._append_when_quiet()
            elif self._coming is None:
                self._coming = loop.call_soon(self._gather, Burst(_MAX_ITERATIONS))

    def append_now(self) -> None:
        """Begin an append, or a confirmation if only answers are waiting, unless one is in progress."""
        self._coming = None
        if self._running is not None or self._has_stopped or not self._is_asked():
            return
        self._began = asyncio.get_running_loop().time()
        self._proofs_under_way = self._proofs_asked
        self._writing = len(self._records), self.pending_bytes
        if not self._records and self._confirm is not None:
            self._running = asyncio.ensure_future(self._prove(self._confirm))
            self._running.add_done_callback(self._ended)
            return
        records, self._records = self._records, []
        self.pending_bytes = 0
        try:
            self._running = self._journal.append(records, self._fencing_token, self._hot.take())
        except Exception as error:
            self._fail(error)
            return
        if self._running.done():
            self._ended(self._running)
        else:
            self._running.add_done_callback(self._ended)

    def stop(self) -> None:
        """Begin no more appends, and ignore the outcome of the current one."""
        self._has_stopped = True

    def hurry(self) -> None:
        """Begin every append without delay from now on, because the runtime is closing."""
        self._is_closing = True

    async def close(self) -> None:
        """Write the queued records, including any that are queued in the meantime."""
        self.append_now()
        while self._running is not None:
            await asyncio.wait([self._running])
            await asyncio.sleep(0)

    def _is_asked(self) -> bool:
        return bool(self._records) or self._proofs_asked > self.proofs

    def _append_when_quiet(self) -> None:
        """Begin the append once commands stop arriving, or at the end of the pause after the last append."""
        if self._coming is not None and len(self._records) == self._quiet_records:
            return  # the new commands produced no records: they were queries or heartbeats
        self._quiet_records = len(self._records)
        loop = asyncio.get_running_loop()
        begins_at = self._rests_until
        if len(self._records) > self._left_records:
            begins_at = min(begins_at, loop.time() + _QUIET_SECONDS)
        if self._coming is not None:
            self._coming.cancel()
        self._coming = loop.call_at(begins_at, self.append_now)

    def _gather(self, burst: Burst) -> None:
        """Begin the append once an iteration of the event loop adds no records, or enough records are waiting."""
        if self.pending_bytes < _ENOUGH_BYTES and burst.goes_on(len(self._records)):
            self._coming = asyncio.get_running_loop().call_soon(self._gather, burst)
        else:
            self.append_now()

    async def _prove(self, confirm: Callable[[int], Awaitable[None]]) -> int:
        await confirm(self._fencing_token)
        return self.durable

    def _ended(self, append: "asyncio.Future[int]") -> None:
        self._running = None
        # The error is always retrieved, even if no caller is waiting any more; otherwise, asyncio would log that it was
        # never retrieved.
        error = append.exception()
        if self._has_stopped:
            return
        if error is not None:
            self._fail(error)
            return
        self.durable = append.result()
        self.proofs = self._proofs_under_way
        records, size = self._writing
        self._rest(records)
        self.append_soon()
        if not self._has_stopped:
            self._on_appended(records, size)

    def _fail(self, error: BaseException) -> None:
        self._has_stopped = True
        self._on_failed(error)

    def _rest(self, records: int) -> None:
        """Delay the next append a little if this one was slow."""
        now = asyncio.get_running_loop().time()
        took = now - self._began
        is_slow = self._confirm is not None and took >= _SLOW_APPEND_SECONDS
        has_company = records > 1 or self._is_asked()
        rest = min(took * _REST, _LONGEST_REST_SECONDS)
        self._rests_until = now + rest if is_slow and has_company else 0.0
        self._left_records = len(self._records)
