"""Checks whether a bucket honours the conditions by which a journal keeps out a second leader."""

from collections.abc import Callable

from lacuna.controlplane.journal.bucket_calls import Bucket
from lacuna.controlplane.journal.journal import JournalRefused
from lacuna.logstore.segments.paths import journal_probe_key


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
        f"{bucket.name} cannot hold a journal: it {what}. Two control planes could both lead, and "
        "lose records that clients were told are durable. Use an S3 service that honours "
        "conditional writes, or a journal in PostgreSQL: --journal postgresql://…"
    )
