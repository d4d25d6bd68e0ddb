"""The keys that encrypt a cluster's objects, read from a file or from a command's output.

    current = "2026-11"                # the id of the key for new objects
    plaintext = "refuse"               # or "read": also read objects that are not encrypted

    [keys]                             # every key with which an existing object was encrypted
    "2025-06" = "…32 bytes in base64…"
    "2026-11" = "…"

JSON with the same content is also accepted. No message contains any part of a key.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import subprocess
import threading
import tomllib
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

from lacuna.base.stamp import Stamp, stamp_of
from lacuna.logstore.objects.cells import KEY_SIZE, MAX_KEY_ID_SIZE
from lacuna.logstore.objects.store import StoreMisconfiguredError

log = logging.getLogger("lacuna.logstore")

COMMAND_VARIABLE: Final = "LACUNA_ENCRYPTION_KEY_COMMAND"

_KEY_ID: Final = re.compile(rf"[A-Za-z0-9_\-][A-Za-z0-9._\-]{{0,{MAX_KEY_ID_SIZE - 1}}}\Z")
_READ, _REFUSE = "read", "refuse"
_COMMAND_SECONDS: Final = 30
_COMMAND: Final = "the command that prints the cluster's keys"
#: Seconds between two runs of the command for unknown ids.
_PAUSE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The cluster's keys by id. `current` is the id of the key that encrypts new objects."""

    current: str
    reads_plaintext: bool
    keys: Mapping[str, bytes] = field(repr=False)


class KeySource(Protocol):
    """A thread-safe source of the cluster's keys."""

    def now(self, age: float = 0.0) -> ClusterKeys:
        """Return the current keys, which may be up to `age` seconds old."""

    def key(self, key_id: str) -> bytes:
        """Return the key with this id. Raises `StoreMisconfiguredError` if there is none."""


def parse_keys(text: str, where: str) -> ClusterKeys:
    """Parse keys from `text`. Raises `StoreMisconfiguredError` with a message that names the source as `where`."""
    try:
        values: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreMisconfiguredError(
            f'{where} is neither TOML nor JSON: it needs current = "ID" and a [keys] table'
        ) from error
    unknown = values.keys() - {"current", "plaintext", "keys"}
    if unknown:
        raise StoreMisconfiguredError(
            f"{where} has an unknown entry {min(unknown)!r}: only current, plaintext and [keys] "
            "are allowed"
        )
    table, current = values.get("keys"), values.get("current")
    if not isinstance(table, dict) or not table:
        raise StoreMisconfiguredError(
            f"{where} has no [keys] table: add one that maps key ids to keys"
        )
    keys = {key_id: _key(key_id, value, where) for key_id, value in table.items()}
    if not isinstance(current, str) or current not in keys:
        raise StoreMisconfiguredError(
            f"{where}: current must be one of the ids in the [keys] table: {', '.join(keys)}"
        )
    plaintext = values.get("plaintext", _REFUSE)
    if plaintext not in (_READ, _REFUSE):
        raise StoreMisconfiguredError(f'{where}: plaintext must be "{_READ}" or "{_REFUSE}"')
    return ClusterKeys(current, plaintext == _READ, keys)


def _key(key_id: str, value: object, where: str) -> bytes:
    if not _KEY_ID.match(key_id):
        raise StoreMisconfiguredError(
            f"{where}: {key_id[:20]!r} is not a valid key id: use 1 to {MAX_KEY_ID_SIZE} letters, "
            "digits, and . _ -"
        )
    try:
        key = b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_SIZE:
        raise StoreMisconfiguredError(
            f"{where}: key {key_id!r} is not {KEY_SIZE} bytes in base64: create one with `openssl "
            f"rand -base64 {KEY_SIZE}`"
        )
    return key


def _is_open_to_others(file: os.stat_result) -> bool:
    """Whether users other than the owner may access the file.

    As in PostgreSQL, group access is allowed to a file that root owns, because Kubernetes mounts secrets that way.
    """
    others = 0o037 if file.st_uid == 0 else 0o077
    return bool(file.st_mode & others)


class KeyFile:
    """The keys in a file, which is reread whenever it changes.

    If it cannot be reread, the keys already loaded remain in use, and a warning gives the reason. Raises
    `StoreMisconfiguredError` if the first read fails.
    """

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Stamp | None
        self._seen, self._keys = self._read()
        self._looked = clock()
        if os.name == "posix" and _is_open_to_others(os.stat(path)):
            log.warning(
                "other users may read or change %s, which holds the cluster's keys: run chmod "
                "600 on it",
                path,
            )

    def now(self, age: float = 0.0) -> ClusterKeys:
        if age and self._clock() - self._looked < age:
            return self._keys
        with self._lock:
            self._looked = self._clock()
            try:
                if self._stamp() != self._seen:
                    self._seen, self._keys = self._read()
            except StoreMisconfiguredError as error:
                if self._seen is not None:
                    log.warning("the encryption keys that were read earlier stay in use: %s", error)
                self._seen = None
            return self._keys

    def key(self, key_id: str) -> bytes:
        known = self._keys
        if key_id not in known.keys:
            known = self.now()
        return find_key(known, key_id, self._path)

    def _read(self) -> tuple[Stamp, ClusterKeys]:
        stamp = self._stamp()
        try:
            text = Path(self._path).read_text(encoding="utf-8")
        except OSError as error:
            raise self._unreadable(error.strerror) from error
        except UnicodeDecodeError as error:
            raise self._unreadable("it is not text") from error
        return stamp, parse_keys(text, self._path)

    def _stamp(self) -> Stamp:
        try:
            return stamp_of(self._path)
        except OSError as error:
            raise self._unreadable(error.strerror) from error

    def _unreadable(self, reason: str | None) -> StoreMisconfiguredError:
        return StoreMisconfiguredError(
            f"the file with the cluster's keys, {self._path}, cannot be read: {reason}"
        )


class KeyCommand:
    """The keys that a command prints.

    The command runs immediately, and again when an object refers to an unknown key. Raises `StoreMisconfiguredError`.
    """

    def __init__(self, command: str, clock: Callable[[], float] = monotonic) -> None:
        self._command = command
        self._clock = clock
        self._lock = threading.Lock()
        self._keys = self._run()
        self._ran = clock()

    def now(self, age: float = 0.0) -> ClusterKeys:  # noqa: ARG002 - they change when the command runs
        return self._keys

    def key(self, key_id: str) -> bytes:
        if key_id not in self._keys.keys:
            with self._lock:
                if key_id not in self._keys.keys and self._clock() - self._ran >= _PAUSE_SECONDS:
                    self._ran = self._clock()
                    self._keys = self._run()
        return find_key(self._keys, key_id, f"the output of {_COMMAND}")

    def _run(self) -> ClusterKeys:
        try:
            done = subprocess.run(
                shlex.split(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
            printed = done.stdout.decode()
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            # Not the error itself, which contains the command's arguments or its output.
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise StoreMisconfiguredError(f"{_COMMAND} could not be run: {reason}") from None
        if done.returncode:
            raise StoreMisconfiguredError(
                f"{_COMMAND} exited with status {done.returncode}: see its standard error"
            )
        return parse_keys(printed, f"the output of {_COMMAND}")


def find_key(keys: ClusterKeys, key_id: str, where: str) -> bytes:
    """Return the key with this id. Raises `KeyMissingError` with a message that names the keys' source as `where`."""
    if key_id not in keys.keys:
        raise KeyMissingError(
            f"an object is encrypted with key {key_id!r}, but {where} has only "
            f"{', '.join(keys.keys)}: restore that key, and keep it until no object needs it"
        )
    return keys.keys[key_id]


class KeyMissingError(StoreMisconfiguredError):
    """An object is encrypted with a key that is not among the cluster's keys."""
