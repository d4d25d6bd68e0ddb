"""Reads secrets. A configuration contains only references to them, so that they do not appear in arguments, config
files or logs.

file:PATH       the contents of a file, without the final line break env:NAME        an environment variable, without a
final line break command:LINE    the output of a command, without the final line break
"""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

from lacuna.base.errors import UserError

_COMMAND_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1 << 20


def read_secret(reference: str, setting: str) -> bytes:
    """Return the secret that a reference points to. Raises UserError, which names `setting` but not the secret."""
    kind, colon, place = reference.partition(":")
    if not colon or kind not in ("file", "env", "command"):
        # The text may be the secret itself, so it is not repeated.
        raise UserError(
            f"{setting} must be a reference to a secret, not the secret itself: use file:PATH, env:NAME or command:LINE"
        )
    if kind == "file":
        return _of_file(Path(place), setting)
    if kind == "env":
        if place not in os.environ:
            raise UserError(f"{setting}: the environment variable {place} is not set")
        return _stripped(os.environb[place.encode()], setting)
    return _of_command(place, setting)


def _of_file(path: Path, setting: str) -> bytes:
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{setting}: {path} cannot be read: {why}") from error
    return _stripped(content, setting)


def _of_command(line: str, setting: str) -> bytes:
    try:
        done = subprocess.run(
            shlex.split(line), capture_output=True, timeout=_COMMAND_SECONDS, check=True
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        why = type(error).__name__
        if isinstance(error, subprocess.CalledProcessError):
            why = f"it exited with code {error.returncode}"
        raise UserError(f"{setting}: the command that prints the secret failed: {why}") from error
    return _stripped(done.stdout, setting)


def _stripped(content: bytes, setting: str) -> bytes:
    secret = content.removesuffix(b"\n").removesuffix(b"\r")
    if not secret or len(secret) > _MOST_BYTES:
        raise UserError(f"{setting}: the secret is empty or longer than {_MOST_BYTES} bytes")
    return secret
