"""Builds a client's program, runs it until it ends or reaches its time limit, and parses its output."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from tests.compat.clients import HERE, Row

BUILD_SECONDS = 800
_MAX_OUTPUT = 64 << 20
_MAX_TEXT = 120
#: What tools create next to the sources.
_MADE = frozenset({"target", "node_modules", "__pycache__", "Cargo.lock"})


class BuildError(Exception):
    """The build of a program failed. The message ends with the build's last line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A program's output for one scenario: its records by partition, and other facts."""

    scenario: str
    ok: bool
    error: str = ""
    unsupported: str = ""
    records: dict[str, list[str]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one run. `ended` is "" if the program succeeded, and otherwise the way in which it ended."""

    lines: dict[str, Line]
    ended: str
    stderr: Path


def build(row: Row) -> None:
    """Run the row's build commands unless they have already run on the same sources. Raises BuildError."""
    row.out.mkdir(parents=True, exist_ok=True)
    done, sources = row.out / "built", sources_of(row)
    if done.exists() and done.read_text() == sources:
        return
    log = row.out / "build.log"
    for command in row.build:
        with log.open("wb") as out:
            code = _run(row.command(command), row.folder, out, out, BUILD_SECONDS)
        if code != 0:
            said = "no end" if code is None else f"exit code {code}"
            raise BuildError(f"{said}: {_last_line(log)}")
    if any("{out}" in word for command in row.build for word in command):
        done.write_text(sources)


def run(
    row: Row,
    bootstrap: str,
    workload: Path,
    prefix: str,
    logs: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Ran:
    """Run the row's program against a cluster. Kills it if it exceeds its time limit."""
    arguments = ["--bootstrap", bootstrap, "--workload", str(workload), "--prefix", prefix]
    stdout, stderr = logs / f"{prefix}.out", logs / f"{prefix}.err"
    command = [*row.command(row.run), *arguments]
    with stdout.open("wb") as out, stderr.open("wb") as err:
        code = _run(command, row.folder, out, err, row.seconds, environment)
    lines = parse(stdout)
    if code is None:
        ended = f"killed after {row.seconds} s"
    elif code:
        ended = f"exit code {code}: {_last_line(stderr)}"
    else:
        ended = ""
    return Ran({line.scenario: line for line in lines}, ended, stderr)


def parse(stdout: Path) -> list[Line]:
    """Parse a program's output. Ignores lines that are not JSON or name no scenario."""
    found = []
    with stdout.open("rb") as file:
        for text in file.read(_MAX_OUTPUT).splitlines():
            try:
                said = json.loads(text)
            except ValueError:
                continue
            if isinstance(said, dict) and "scenario" in said:
                found.append(_line(said))
    return found


def shortened(line: str) -> str:
    """Shorten a long record to its beginning, its length and a digest, so that results stay readable."""
    if len(line) <= _MAX_TEXT:
        return line
    digest = hashlib.sha256(line.encode()).hexdigest()[:12]
    return f"{line[:40]}...({len(line)} characters, {digest})"


def sources_of(row: Row) -> str:
    """Return a digest of the build commands and of all files that they may read."""
    words = {word for command in row.build for word in command if " " not in word}
    named = {row.folder / word for word in words}
    folders = [row.folder, *HERE.glob("harness*")]
    found = {path for folder in folders for path in folder.rglob("*")} | named
    digest = hashlib.sha256(repr(row.build).encode())
    for path in sorted(found):
        name = os.path.relpath(path, HERE)
        if path.is_file() and not _MADE.intersection(Path(name).parts):
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _line(said: dict[str, Any]) -> Line:
    records = {
        name: [shortened(str(record)) for record in records]
        for name, records in (said.get("records") or {}).items()
    }
    facts = dict(said.get("facts") or {})
    if isinstance(facts.get("at_end"), list):
        facts["at_end"] = sorted(facts["at_end"])
    return Line(
        scenario=str(said["scenario"]),
        ok=bool(said.get("ok")),
        error=str(said.get("error") or ""),
        unsupported=str(said.get("unsupported") or ""),
        records={name: records[name] for name in sorted(records) if records[name]},
        facts=facts,
    )


def _run(
    command: Sequence[str],
    folder: Path,
    out: BinaryIO,
    err: BinaryIO,
    seconds: float,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> int | None:
    """Run a command. Return its exit code, or None if it was killed at its limit. Its children end with it."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        err.write(f"{command[0]}: {error.strerror}\n".encode())
        return 127
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4000))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
