"""Reads the rows of the client matrix from clients.toml."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat.workload import CODECS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUT = HERE / "out"
#: The Kafkas to compare with: the name in clients.toml, and the version that Maven fetches.
KAFKAS = {"4.4": "4.4.0", "4.1": "4.1.0", "3.9": "3.9.1"}
_SECONDS = 600
_KINDS = ("client", "tool", "framework")
_CLIENT_KEYS = frozenset(
    {
        "folder",
        "name",
        "language",
        "kind",
        "needs",
        "versions",
        "notes",
        "advice",
        "also",
        "by_hand",
    }
)
_VERSION_KEYS = frozenset(
    {
        "version",
        "kafka",
        "quick",
        "secured",
        "build",
        "run",
        "not_run",
        "codecs",
        "seconds",
        "notes",
        "advice",
    }
)


class ClientFileError(Exception):
    """clients.toml is invalid. The message names the client and the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One version of one client, as clients.toml describes it."""

    folder: Path
    name: str
    language: str
    kind: str
    needs: tuple[str, ...]
    version: str
    kafka: str
    quick: bool
    secured: bool
    by_hand: bool
    build: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    not_run: str
    codecs: tuple[str, ...]
    seconds: int
    notes: str
    advice: str
    also: tuple[str, ...]

    @property
    def title(self) -> str:
        """NAME@VERSION, as `lacuna doctor --client` accepts it."""
        return f"{self.name}@{self.version}"

    @property
    def out(self) -> Path:
        """The folder for this version's build output."""
        return OUT / self.name / self.version

    @property
    def missing(self) -> list[str]:
        """The programs that it needs and that are not installed."""
        return [program for program in self.needs if shutil.which(program) is None]

    @property
    def needs_jars(self) -> bool:
        """Whether building or running it requires the jars of the Kafka under comparison."""
        return any("{libs}" in word for words in (*self.build, self.run) for word in words)

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a command of clients.toml with its {names} replaced by their values."""
        values = {
            "out": str(self.out),
            "version": self.version,
            "here": str(self.folder),
            "python": sys.executable,
            "libs": str(jars(self.kafka)),
        }
        filled = []
        for word in words:
            for name, value in values.items():
                word = word.replace(f"{{{name}}}", value)
            filled.append(word)
        return filled


def jars(kafka: str) -> Path:
    """Return the folder with the jars of a Kafka, given its name in KAFKAS. The benchmarks use the same folder."""
    return ROOT / "bench" / "out" / f"kafka-{KAFKAS[kafka]}"


def rows(path: Path = HERE / "clients.toml") -> list[Row]:
    """Return all rows in their order. Raises ClientFileError."""
    clients = tomllib.loads(path.read_text())["clients"]
    found = [row for client in clients for row in _rows_of(path.parent, client)]
    titles = [row.title for row in found]
    if twice := {title for title in titles if titles.count(title) > 1}:
        raise ClientFileError(f"{', '.join(sorted(twice))}: two clients have this row")
    return found


def chosen(names: Sequence[str], among: Sequence[Row] | None = None) -> list[Row]:
    """Return the rows that match NAME, NAME@VERSION or a folder. Without names, return all rows that do not run by hand
    only.

    Raises ClientFileError for an unknown name.
    """
    among = rows() if among is None else among
    if not names:
        return [row for row in among if not row.by_hand]
    found: list[Row] = []
    for name in names:
        some = [row for row in among if name in (row.name, row.title, row.folder.name)]
        if not some:
            known = ", ".join(dict.fromkeys(row.name for row in among))
            raise ClientFileError(f"{name}: there is no such row; there are {known}")
        found += [row for row in some if row not in found]
    return found


def _rows_of(parent: Path, client: dict[str, Any]) -> list[Row]:
    where = client["folder"]
    if unknown := set(client) - _CLIENT_KEYS:
        raise ClientFileError(f"{where}: unknown keys {', '.join(sorted(unknown))}")
    if client.get("kind", "client") not in _KINDS:
        raise ClientFileError(f"{where}: kind is one of {', '.join(_KINDS)}")
    return [_row(parent / where, where, client, version) for version in client["versions"]]


def _row(folder: Path, where: str, client: dict[str, Any], version: dict[str, Any]) -> Row:
    if unknown := set(version) - _VERSION_KEYS:
        raise ClientFileError(f"{where}: unknown keys {', '.join(sorted(unknown))}")
    if ("run" in version) == ("not_run" in version):
        raise ClientFileError(f"{where}: {version.get('version')} needs either run or not_run")
    kafka = version.get("kafka", "4.4")
    if kafka not in KAFKAS:
        raise ClientFileError(f"{where}: kafka is one of {', '.join(KAFKAS)}, not {kafka}")
    return Row(
        folder=folder,
        name=client["name"],
        language=client["language"],
        kind=client.get("kind", "client"),
        needs=tuple(client.get("needs", ())),
        version=version["version"],
        kafka=kafka,
        quick=version.get("quick", False),
        secured=version.get("secured", False),
        by_hand=client.get("by_hand", False),
        build=tuple(tuple(command) for command in version.get("build", ())),
        run=tuple(version.get("run", ())),
        not_run=version.get("not_run", ""),
        codecs=tuple(version.get("codecs", CODECS)),
        seconds=version.get("seconds", _SECONDS),
        notes=version.get("notes", client.get("notes", "")),
        advice=version.get("advice", client.get("advice", "")),
        also=tuple(client.get("also", ())),
    )
