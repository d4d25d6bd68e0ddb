"""Opens the object store at a URL.

The option `encryption_keys` is the path of the file with the cluster's keys (`cluster_keys`). If it is `command`, the
command in the environment variable LACUNA_ENCRYPTION_KEY_COMMAND prints the keys. URLs may come from a file in a data
folder, which must not be able to run a command, so they cannot contain the command itself.
"""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from lacuna.logstore.objects.cluster_keys import COMMAND_VARIABLE, KeyCommand, KeyFile, KeySource
from lacuna.logstore.objects.conditional import ConditionalStore
from lacuna.logstore.objects.directory import DIRECTORY
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore, EncryptedStore
from lacuna.logstore.objects.kind import KEYS_OPTION, StoreKind
from lacuna.logstore.objects.memory import MEMORY
from lacuna.logstore.objects.s3_kind import S3
from lacuna.logstore.objects.store import ObjectStore, StoreMisconfiguredError

KINDS: Final = {kind.scheme: kind for kind in (DIRECTORY, MEMORY, S3)}
"""All kinds of stores, by the scheme of their URLs."""

NEVER_ENCRYPTED: Final = frozenset({"cluster.json"})
"""The cluster's marker is not encrypted: it holds no secret, and exists before the keys do."""
KEYS_VARIABLE: Final = "LACUNA_ENCRYPTION_KEYS"
OF_COMMAND: Final = "command"


def _forms(is_one: Callable[[StoreKind], bool]) -> str:
    return ", ".join(kind.form for kind in KINDS.values() if is_one(kind))


FORMS: Final = _forms(lambda _: True)
"""The forms of stores' URLs, as messages and help texts show them. The three constants below contain the forms of some
kinds.
"""
SHARED_FORMS: Final = _forms(lambda kind: kind.is_shared)
JOURNAL_FORMS: Final = _forms(lambda kind: kind.open_for_journal is not None)
EXPORT_FORMS: Final = _forms(lambda kind: kind.takes_exports)


def kind_of(url: str) -> StoreKind:
    """Return the kind of store that `url` names. Raises `StoreMisconfiguredError` if it names none."""
    return _checked(url)[0]


def holds_journals(url: str) -> bool:
    """Whether the store at `url` can hold a journal or its snapshots."""
    kind = KINDS.get(url.partition(":")[0])
    return kind is not None and kind.open_for_journal is not None


def folder_of(url: str) -> str | None:
    """Return the folder of the store at `url`, or None if it is not in a folder. Raises `StoreMisconfiguredError`."""
    kind, parts = _checked(url)
    return None if kind.folder is None else kind.folder(parts)


def open_store(url: str) -> ObjectStore:
    """Open the store at `url`. A missing directory is created.

    No request is sent to a service; call `check()` to test the connection. Raises `StoreMisconfiguredError`.
    """
    kind, parts = _checked(url)
    options = _options(kind, parts)
    keys = _keys(options)
    store = kind.open(parts, options)
    return store if keys is None else EncryptedStore(store, keys, plain=NEVER_ENCRYPTED)


def open_conditional_store(url: str) -> ConditionalStore:
    """Open the store at `url` for a journal.

    Raises `StoreMisconfiguredError`, for example if the store does not support conditional writes by several machines.
    """
    kind, parts = _checked(url)
    if kind.open_for_journal is None:
        raise StoreMisconfiguredError(
            f"{url!r} does not support conditional writes by several machines, so it cannot hold a "
            f"journal: use {JOURNAL_FORMS}"
        )
    options = _options(kind, parts)
    keys = _keys(options)
    store = kind.open_for_journal(parts, options)
    return store if keys is None else EncryptedConditionalStore(store, keys, plain=NEVER_ENCRYPTED)


def check_url(url: str) -> None:
    """Check a URL and its options without opening the store. Raises `StoreMisconfiguredError`."""
    _options(*_checked(url))


def with_options(url: str, **options: str) -> str:
    """Return the URL with these options set, except for empty ones. Raises `StoreMisconfiguredError`."""
    _, parts = _checked(url)
    given = {name: value for name, value in options.items() if value}
    if not given:
        return url
    there = dict(parse_qsl(parts.query, keep_blank_values=True))
    changed = parts._replace(query=urlencode({**there, **given}, safe=":/")).geturl()
    _options(*_checked(changed))
    return changed


def has_keys(url: str) -> bool:
    """Whether the URL has the option `encryption_keys`. Raises `StoreMisconfiguredError`."""
    return KEYS_OPTION in dict(parse_qsl(_checked(url)[1].query, keep_blank_values=True))


def with_keys(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL. If it does not say where the keys are, add the source given in `environment`, if any."""
    keys = keys_option(environment.get(KEYS_VARIABLE, ""), environment.get(COMMAND_VARIABLE, ""))
    return url if has_keys(url) else with_options(url, **{KEYS_OPTION: keys})


def keys_option(path: str, command: str) -> str:
    """Return the value of `encryption_keys` for a key file or a command, or "" for neither."""
    return os.path.abspath(path) if path else OF_COMMAND if command else ""


def _checked(url: str) -> tuple[StoreKind, SplitResult]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _no_store(url) from error
    kind = KINDS.get(parts.scheme)
    if kind is None or not kind.is_store(parts):
        raise _no_store(url)
    if "#" in url or ("?" in url and not _has_options(kind, parts)):
        raise StoreMisconfiguredError(
            f"{url!r}: the part after '?' or '#' would be ignored: use %3F and %23 if these "
            "characters are part of a name"
        )
    return kind, parts


def _no_store(url: str) -> StoreMisconfiguredError:
    return StoreMisconfiguredError(f"{url!r} is not the URL of an object store: use one of {FORMS}")


def _has_options(kind: StoreKind, parts: SplitResult) -> bool:
    if kind.folder is None:
        return bool(kind.options)
    return parts.query.startswith(tuple(f"{name}=" for name in kind.options))


def _options(kind: StoreKind, parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    where = f"{kind.scheme}://{parts.netloc or parts.path}"
    if unknown := sorted(options.keys() - set(kind.options)):
        raise StoreMisconfiguredError(
            f"{where}: unknown option {', '.join(unknown)}: the options are {', '.join(kind.options)}"
        )
    for name, value in options.items():
        if not value:
            raise StoreMisconfiguredError(
                f"{where}: the option {name} is empty: give it a value or omit it"
            )
    return options


def _keys(options: Mapping[str, str]) -> KeySource | None:
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
            "the objects of this store are encrypted with keys that a command prints: specify the "
            f"command with {COMMAND_VARIABLE} or --encryption-key-command"
        )
    return KeyCommand(command)
