"""Open the object store that a URL names.

In a URL, `encryption_keys` is the path of the file with the cluster's keys (`cluster_keys`), or `command`: they are
printed by the command in the environment variable LACUNA_ENCRYPTION_KEY_COMMAND. A URL may come from a file in a data
folder, and must not be able to run a command.
"""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from lacuna.logstore.objects.cluster_keys import COMMAND_VARIABLE, KeyCommand, KeyFile, KeySource
from lacuna.logstore.objects.conditional import ConditionalStore
from lacuna.logstore.objects.directory import DirectoryStore
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore, EncryptedStore
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import ObjectStore, StoreMisconfiguredError, wall_clock_ms

if TYPE_CHECKING:
    from lacuna.logstore.objects.s3 import ServerSideEncryption

FORMS = (
    "file:///directory, memory:, s3://bucket/prefix?endpoint=http://host:port&region=name; the first and the last with "
    "encryption_keys=/file"
)

NEVER_ENCRYPTED: Final = frozenset({"cluster.json"})
"""The cluster's marker: it has no secret, and is there before the keys are."""
KEYS_OPTION: Final = "encryption_keys"
KEYS_VARIABLE: Final = "LACUNA_ENCRYPTION_KEYS"
OF_COMMAND: Final = "command"

_OPTIONS: Final = {
    "file": (KEYS_OPTION,),
    "s3": ("endpoint", "region", "read_gap", "sse", "sse_kms_key_id", KEYS_OPTION),
}


def open_store(url: str, *, now_ms: Callable[[], int] = wall_clock_ms) -> ObjectStore:
    """Open the store at `url`, one of `FORMS`; `now_ms` is the clock of a memory store.

    S3 credentials are never in the URL: they come from boto3's usual chain. A directory is created,
    but no request is sent to S3: call `check()` for that. Raises `StoreMisconfiguredError`.
    """
    parts = _checked(url)
    if parts.scheme == "memory":
        return MemoryStore(now_ms)
    options = _options(parts)
    keys = _keys(options)
    store = (
        DirectoryStore(unquote(parts.path))
        if parts.scheme == "file"
        else _open_s3(parts.netloc, parts.path.strip("/"), options)
    )
    return store if keys is None else EncryptedStore(store, keys, plain=NEVER_ENCRYPTED)


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
    options = _options(parts)
    keys = _keys(options)
    store = _open_s3(parts.netloc, parts.path.strip("/"), options, is_impatient=True)
    return store if keys is None else EncryptedConditionalStore(store, keys, plain=NEVER_ENCRYPTED)


def check_url(url: str) -> None:
    """Raise `StoreMisconfiguredError` unless `url` has one of `FORMS`; open nothing."""
    _options(_checked(url))


def with_options(url: str, **options: str) -> str:
    """The URL with these options, but for those that are empty. Raises `StoreMisconfiguredError`."""
    parts = _checked(url)
    given = {name: value for name, value in options.items() if value}
    if not given:
        return url
    there = dict(parse_qsl(parts.query, keep_blank_values=True))
    changed = parts._replace(query=urlencode({**there, **given}, safe=":/")).geturl()
    _options(_checked(changed))
    return changed


def has_keys(url: str) -> bool:
    """Whether the URL names the keys with which its objects are encrypted. Raises `StoreMisconfiguredError`."""
    return KEYS_OPTION in dict(parse_qsl(_checked(url).query, keep_blank_values=True))


def with_keys(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL with the keys that the environment names, if it names none itself."""
    keys = keys_option(environment.get(KEYS_VARIABLE, ""), environment.get(COMMAND_VARIABLE, ""))
    return url if has_keys(url) else with_options(url, **{KEYS_OPTION: keys})


def keys_option(path: str, command: str) -> str:
    """What `encryption_keys` is in a URL for a file of keys, or a command, or neither."""
    return os.path.abspath(path) if path else OF_COMMAND if command else ""


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _no_store(url) from error
    if "#" in url or ("?" in url and not _has_options(parts)):
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


def _has_options(parts: SplitResult) -> bool:
    """Whether what follows "?" are options, and not a part of a folder's name."""
    return parts.scheme == "s3" or (
        parts.scheme == "file" and parts.query.startswith(f"{KEYS_OPTION}=")
    )


def _options(parts: SplitResult) -> dict[str, str]:
    """The options of a URL. Raises `StoreMisconfiguredError` for one that does not exist or has no value."""
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = _OPTIONS.get(parts.scheme, ())
    where = f"{parts.scheme}://{parts.netloc or parts.path}"
    if unknown := sorted(options.keys() - set(known)):
        raise StoreMisconfiguredError(
            f"{where}: unknown option {', '.join(unknown)}: the options are {', '.join(known)}"
        )
    for name, value in options.items():
        if not value:
            raise StoreMisconfiguredError(
                f"{where}: the option {name} is empty: give it a value, or leave it out"
            )
    return options


def _keys(options: Mapping[str, str]) -> KeySource | None:
    """The keys that the options of a URL name."""
    path = options.get(KEYS_OPTION)
    if path is None:
        return None
    if find_spec("cryptography") is None:
        raise StoreMisconfiguredError(
            "encryption needs cryptography: pip install 'lacuna-log[security]'"
        )
    if path != OF_COMMAND:
        return KeyFile(path)
    command = os.environ.get(COMMAND_VARIABLE)
    if not command:
        raise StoreMisconfiguredError(
            f"the objects of this store are encrypted, and a command prints the keys: name it with {COMMAND_VARIABLE} "
            "or --encryption-key-command"
        )
    return KeyCommand(command)


def _open_s3(
    bucket: str, prefix: str, options: Mapping[str, str], *, is_impatient: bool = False
) -> ConditionalStore:
    if find_spec("boto3") is None:
        raise StoreMisconfiguredError("a bucket needs boto3: pip install 'lacuna-log[s3]'")
    # importing boto3 takes a third of a second, which only S3 needs
    from lacuna.logstore.objects.s3 import READ_GAP, S3Store

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
        encryption=_encryption(bucket, options),
        is_impatient=is_impatient,
    )


def _encryption(bucket: str, options: Mapping[str, str]) -> "ServerSideEncryption | None":
    from lacuna.logstore.objects.s3 import SSE_KINDS, ServerSideEncryption

    kind, key_id = options.get("sse", ""), options.get("sse_kms_key_id", "")
    if not kind and not key_id:
        return None
    if kind not in SSE_KINDS:
        raise StoreMisconfiguredError(
            f"s3://{bucket}: sse is {kind!r}: choose {', '.join(SSE_KINDS)}"
        )
    if key_id and not kind.startswith("aws:kms"):
        raise StoreMisconfiguredError(
            f"s3://{bucket}: sse_kms_key_id is for sse=aws:kms or aws:kms:dsse, and not for {kind}"
        )
    return ServerSideEncryption(kind, key_id)
