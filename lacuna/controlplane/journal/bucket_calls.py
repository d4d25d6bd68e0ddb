"""A journal's bucket as the event loop uses it. Calls run in threads, and are retried until answered."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, TypeVar

from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalError,
    JournalRefused,
    JournalUnreachable,
)
from lacuna.logstore.objects import (
    ConditionalStore,
    ConditionFailedError,
    DamagedObjectError,
    NotDeletedError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStoreError,
    ShortReadError,
    StoreMisconfiguredError,
    StoreUnavailableError,
    VersionedObject,
)
from lacuna.logstore.objects.cells import is_encrypted
from lacuna.logstore.segments.paths import journal_probe_key

T = TypeVar("T")

#: Appends, renewals and the requests of a takeover have their own threads, and never queue behind a replay or a
#: snapshot.
_WRITE_THREADS: Final = 4
READ_THREADS: Final = 16
#: The size of a page in S3's listings.
LISTED_AT_ONCE: Final = 1000

_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0


def random_id() -> bytes:
    return secrets.token_bytes(16)


class Bucket:
    """A store as a journal uses it, called `name` in messages. The caller closes the store.

    Each call is retried for `answer_timeout` seconds, and then raises JournalUnreachable. If the store denies access,
    the call raises JournalRefused: immediately or, if access was granted before, after the same time, since a denial
    may be temporary, for example while credentials are rotated. After either error, a write may still have happened, or
    may happen later. Reads raise JournalCorrupt if an object in an encrypted bucket was changed, and JournalRefused if
    the keys are missing.
    """

    def __init__(self, store: ConditionalStore, name: str, answer_timeout: float) -> None:
        self.name = name
        self._store = store
        self._answer_timeout = answer_timeout
        self._was_let_in = False
        self._writers = ThreadPoolExecutor(_WRITE_THREADS, "journal-write")
        self._readers = ThreadPoolExecutor(READ_THREADS, "journal-read")

    async def load(self, key: str) -> VersionedObject | None:
        """Return a complete object with its ETag, or None if it does not exist."""
        try:
            found = await self._repeated(self._writers, lambda: self._store.load(key))
        except ObjectNotFoundError:
            return None
        self._check_readable(found.data)
        return found

    async def create(self, key: str, data: bytes, *, is_urgent: bool = True) -> bool:
        """Create an object, and return whether it now holds `data` rather than another writer's bytes.

        `data` must be unique to this writer, since an earlier attempt whose answer was lost is recognized by its bytes.
        """
        threads = self._writers if is_urgent else self._readers
        async with self._deadline() as attempts:
            while True:
                try:
                    await self._attempt(attempts, threads, lambda: self._store.create(key, data))
                    return True
                except ConditionFailedError:
                    found = await self.read(key)
                if found is not None:
                    return found == data
                await asyncio.sleep(attempts.pause())

    async def replace(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace the object with this ETag, and return its new ETag, or None if the object is missing or has a
        different one.

        Also returns None if an earlier attempt at this call succeeded but its answer was lost. To find out whether that
        happened, load the object.
        """
        try:
            return await self._repeated(self._writers, lambda: self._store.replace(key, data, etag))
        except (ConditionFailedError, ObjectNotFoundError):
            return None

    async def read(self, key: str) -> bytes | None:
        """Return a complete object, or None if it does not exist."""
        try:
            data = bytes(await self._repeated(self._readers, lambda: self._store.get_all(key)))
        except ObjectNotFoundError:
            return None
        self._check_readable(data)
        return data

    async def read_beginning(self, key: str, size: int) -> bytes | None:
        """Return the first `size` bytes of an object, or fewer if it is shorter. Return None if it does not exist."""
        found = await self.read_range(key, 0, size)
        if found is not None:
            self._check_readable(found)
        return found

    async def read_range(self, key: str, position: int, size: int) -> bytes | None:
        """Return `size` bytes of an object, or fewer if it ends earlier. Return None if it does not exist."""
        try:
            found = await self._repeated(
                self._readers, lambda: self._store.get_up_to(key, position, size)
            )
        except ObjectNotFoundError:
            return None
        except ShortReadError:
            return b""
        return bytes(found)

    async def list(self, prefix: str, start_after: str = "") -> list[ObjectInfo]:
        """Return at most `LISTED_AT_ONCE` objects under a prefix, in the order of their keys."""
        return await self._repeated(
            self._readers,
            lambda: list(islice(self._store.list(prefix, start_after), LISTED_AT_ONCE)),
        )

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, whether or not they exist. If some remain, raises JournalError after trying all."""
        try:
            await self._repeated(self._readers, lambda: self._store.delete(keys))
        except NotDeletedError as error:
            is_refused = all(
                isinstance(each, StoreMisconfiguredError) for each in error.failures.values()
            )
            raise (JournalRefused if is_refused else JournalError)(
                f"{self.name}: {error}"
            ) from error

    def _check_readable(self, data: bytes) -> None:
        """Raise JournalRefused if the object cannot be read without the cluster's keys."""
        if is_encrypted(data):
            raise JournalRefused(
                f"{self.name}: the journal is encrypted: specify the file that contains the cluster's keys "
                "(--encryption-keys, or LACUNA_ENCRYPTION_KEYS)"
            )

    async def _repeated(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        async with self._deadline() as attempts:
            return await self._attempt(attempts, threads, call)

    async def _attempt(
        self, attempts: "_Attempts", threads: ThreadPoolExecutor, call: Callable[[], T]
    ) -> T:
        while True:
            try:
                done = await asyncio.get_running_loop().run_in_executor(threads, call)
                self._was_let_in = True
                return done
            except StoreUnavailableError as error:
                attempts.error = error
            except StoreMisconfiguredError as error:
                if not self._was_let_in:
                    raise JournalRefused(f"{self.name}: {error}") from error
                attempts.error = error
            except (ConditionFailedError, NotDeletedError, ObjectNotFoundError, ShortReadError):
                raise
            except DamagedObjectError as error:
                raise JournalCorrupt(f"{self.name}: {error}") from error
            except ObjectStoreError as error:
                raise JournalError(f"{self.name}: {error}") from error
            await asyncio.sleep(attempts.pause())

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator["_Attempts"]:
        attempts = _Attempts()
        try:
            async with asyncio.timeout(self._answer_timeout):
                yield attempts
        except TimeoutError:
            if isinstance(attempts.error, StoreMisconfiguredError):
                raise JournalRefused(f"{self.name}: {attempts.error}") from attempts.error
            raise JournalUnreachable(
                f"{self.name}: the bucket did not answer the journal's request within "
                f"{self._answer_timeout:g} s ({attempts.error or 'no answer'}). Check that this "
                "machine can reach it"
            ) from attempts.error


class _Attempts:
    """The failed attempts at a call: the last `error`, and the pause before the next attempt."""

    def __init__(self) -> None:
        self.error: StoreUnavailableError | StoreMisconfiguredError | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def pause(self) -> float:
        """Return a pause in seconds, which doubles each time, up to a limit."""
        pause = self._pause
        self._pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return pause


async def probe(bucket: Bucket, new_id: Callable[[], bytes]) -> None:
    """Create, replace and delete a probe object. Raises JournalRefused if a condition is ignored or a step fails.

    `new_id` returns random bytes.
    """
    key = journal_probe_key(new_id())
    first, second, third = (b"probe " + new_id().hex().encode() for _ in range(3))
    try:
        await bucket.create(key, first)
        created = await bucket.load(key)
        if created is None:
            raise _refused(bucket, "does not return the object that was just written")
        if await bucket.create(key, second):
            raise _refused(
                bucket, "ignores If-None-Match, and replaces an object that was to be created"
            )
        if await bucket.replace(key, second, created.etag) is None:
            found = await bucket.load(key)
            if found is None or found.data != second:
                raise _refused(bucket, "rejects If-Match with the ETag that it returned")
        if await bucket.replace(key, third, created.etag) is not None:
            raise _refused(bucket, "ignores If-Match, and replaces an object that has changed")
    finally:
        await bucket.delete([key])


def _refused(bucket: Bucket, what: str) -> JournalRefused:
    return JournalRefused(
        f"{bucket.name} cannot hold a journal: it {what}. Two control planes could both become the "
        "leader, and lose records that were acknowledged to clients. Use an S3 service that honours "
        "conditional writes, or a journal in PostgreSQL: --journal postgresql://…"
    )
