"""From a URL to the store it names."""

from collections.abc import Callable
from urllib.parse import parse_qsl, unquote, urlsplit

from logstore.objects.directory import DirectoryStore
from logstore.objects.memory import MemoryStore
from logstore.objects.store import ObjectStore, StoreMisconfiguredError, wall_clock_ms

FORMS = "file:///directory, memory:, s3://bucket/prefix?endpoint=http://host:port&region=name"

_S3_OPTIONS = frozenset({"endpoint", "region"})


def open_store(url: str, *, now_ms: Callable[[], int] = wall_clock_ms) -> ObjectStore:
    """Open the store at `url`, one of `FORMS`; `now_ms` stamps what has no clock of its own.

    Credentials of S3 never stand in the URL: they come from boto3's usual chain. Nothing is asked
    of the store yet but a directory's creation: call `check()`. Raises `StoreMisconfiguredError`.
    """
    parts = urlsplit(url)
    if "#" in url or ("?" in url and parts.scheme != "s3"):
        raise StoreMisconfiguredError(
            f"{url!r}: what follows '?' or '#' would be left out: write %3F and %23 in a name"
        )
    if parts.scheme == "memory" and not (parts.netloc or parts.path.strip("/")):
        return MemoryStore(now_ms)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return DirectoryStore(unquote(parts.path))
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3(parts.netloc, parts.path.strip("/"), parts.query)
    raise StoreMisconfiguredError(f"{url!r} names no object store: write one of {FORMS}")


def _open_s3(bucket: str, prefix: str, query: str) -> ObjectStore:
    # boto3 takes a third of a second to import, which a directory's user need not pay
    from logstore.objects.s3 import S3Store

    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - _S3_OPTIONS:
        raise StoreMisconfiguredError(
            f"s3://{bucket}: no option is called {', '.join(sorted(unknown))}: "
            "there are endpoint and region"
        )
    for name, value in options.items():
        if not value:
            raise StoreMisconfiguredError(
                f"s3://{bucket}: the option {name} is empty: leave it out, or say which"
            )
    return S3Store(bucket, prefix, endpoint=options.get("endpoint"), region=options.get("region"))
