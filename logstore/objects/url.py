"""Open the object store that a URL names."""

from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lacuna.logstore.objects.conditional import ConditionalStore
from lacuna.logstore.objects.directory import DirectoryStore
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import ObjectStore, StoreMisconfiguredError, wall_clock_ms

FORMS = "file:///directory, memory:, s3://bucket/prefix?endpoint=http://host:port&region=name"

_S3_OPTIONS = frozenset({"endpoint", "region", "read_gap"})


def open_store(url: str, *, now_ms: Callable[[], int] = wall_clock_ms) -> ObjectStore:
    """Open the store at `url`, one of `FORMS`; `now_ms` is the clock of a memory store.

    S3 credentials are never in the URL: they come from botocore's usual chain. A directory is created,
    but no request is sent to S3: call `check()` for that. Raises `StoreMisconfiguredError`.
    """
    parts = _checked(url)
    if parts.scheme == "memory":
        return MemoryStore(now_ms)
    if parts.scheme == "file":
        return DirectoryStore(unquote(parts.path))
    return _open_s3(parts.netloc, parts.path.strip("/"), parts.query)


def open_conditional_store(url: str) -> ConditionalStore:
    """Open the bucket at `url` for a journal: requests are sent once, and fail after seconds.

    Raises `StoreMisconfiguredError`, also if `url` names a directory, which cannot replace an object conditionally.
    """
    parts = _checked(url)
    if parts.scheme == "memory":
        return MemoryStore()
    if parts.scheme == "file":
        raise StoreMisconfiguredError(
            f"{url!r} is a directory, which several machines cannot write to under a condition: "
            "a journal in the bucket needs s3://bucket"
        )
    return _open_s3(parts.netloc, parts.path.strip("/"), parts.query, is_impatient=True)


def check_url(url: str) -> None:
    """Raise `StoreMisconfiguredError` unless `url` has one of `FORMS`; open nothing."""
    _checked(url)


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _no_store(url) from error
    if "#" in url or ("?" in url and parts.scheme != "s3"):
        raise StoreMisconfiguredError(
            f"{url!r}: what follows '?' or '#' would be ignored: write %3F and %23 if they are part of a name"
        )
    is_one = {
        "memory": not (parts.netloc or parts.path.strip("/")),
        "file": not parts.netloc and len(parts.path) > 1,
        "s3": bool(parts.netloc),
    }
    if not is_one.get(parts.scheme, False):
        raise _no_store(url)
    return parts


def _no_store(url: str) -> StoreMisconfiguredError:
    return StoreMisconfiguredError(
        f"{url!r} is not the URL of an object store: write one of {FORMS}"
    )


def _open_s3(
    bucket: str, prefix: str, query: str, *, is_impatient: bool = False
) -> ConditionalStore:
    if find_spec("botocore") is None:
        raise StoreMisconfiguredError("a bucket needs botocore: pip install 'lacuna-log[s3]'")
    # importing botocore takes a third of a second, which only S3 needs
    from lacuna.logstore.objects.s3 import READ_GAP, S3Store

    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - _S3_OPTIONS:
        raise StoreMisconfiguredError(
            f"s3://{bucket}: unknown option {', '.join(sorted(unknown))}: "
            "the options are endpoint, region and read_gap"
        )
    for name, value in options.items():
        if not value:
            raise StoreMisconfiguredError(
                f"s3://{bucket}: the option {name} is empty: give it a value, or leave it out"
            )
    read_gap = options.get("read_gap", str(READ_GAP))
    if not (read_gap.isascii() and read_gap.isdigit()):
        raise StoreMisconfiguredError(
            f"s3://{bucket}: read_gap is {read_gap!r}: write a number of bytes, such as read_gap={READ_GAP}"
        )
    return S3Store(
        bucket,
        prefix,
        endpoint=options.get("endpoint"),
        region=options.get("region"),
        read_gap=int(read_gap),
        is_impatient=is_impatient,
    )
