"""Fixtures that run the `lacuna` command as a real process, and clients that write records for it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lacuna.testing import Cluster
from tests.forked import LACUNA, start_process
from tests.journal_servers import (
    bucket_url,
    database,
    kept_database,
    moto_endpoint,
    postgresql,
)

__all__ = ["bucket_url", "database", "kept_database", "moto_endpoint", "postgresql"]

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A command's two outputs and its exit code. Bytes that are not UTF-8 become surrogates."""

    out: str
    err: str
    code: int

    @property
    def rows(self) -> list[list[str]]:
        """Return the cells in each line of the output, split at tabs."""
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def problems_of_cluster(self) -> list[dict[str, str]]:
        """Return the problems in the JSON of `lacuna status`, except those caused by a slow or full disk."""
        problems: list[dict[str, str]] = json.loads(self.out)["problems"]
        of_machine = {("degraded", "disk"), ("failing", "disk"), ("degraded", "store")}
        return [
            each
            for each in problems
            if each["severity"] != "advice" and (each["severity"], each["part"]) not in of_machine
        ]


Command = Callable[..., Ran]
Refusal = Callable[..., str]
#: Runs a command with --json, and returns its output.
Asks = Callable[..., Any]
#: Creates a topic, and returns its name.
NewTopic = Callable[..., str]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {name: value for name, value in kept.items() if not name.startswith("LACUNA_")}


def without_warnings(err: str) -> list[str]:
    """Return the lines of a log except for warnings, which a process may write on a busy machine."""
    return [line for line in err.splitlines() if " WARNING lacuna" not in line]


def with_lasting_leases(cluster: Cluster) -> Cluster:
    """Return a cluster whose agents keep their leases and connections when this process pauses."""
    for lease in cluster.embedded.running.runtime._state.leases.values():
        lease.duration_ms = 3_600_000
    return cluster


def users_file(folder: Path, *names: str) -> str:
    """Write a users file in which every password is `secret`. Return its path."""
    (folder / "password").write_text("secret\n")
    path = folder / "users.toml"
    path.write_text("".join(f'{name} = "file:{folder}/password"\n' for name in names))
    return str(path)


@pytest.fixture(scope="session")
def lacuna_cluster(lacuna_cluster: Cluster) -> Cluster:
    return with_lasting_leases(lacuna_cluster)


@pytest.fixture
def lacuna_private_cluster(lacuna_private_cluster: Cluster) -> Cluster:
    return with_lasting_leases(lacuna_private_cluster)


@pytest.fixture
def lacuna(tmp_path: Path) -> Command:
    """A function that runs `lacuna ARGUMENTS` in a separate process in an empty folder, and waits until it ends.

    `stdin` is its standard input. `up` has no console unless the arguments name one, because the default port may be in
    use on this machine.
    """

    def run(*arguments: str, columns: int = 80, stdin: bytes = b"", **environment: str) -> Ran:
        if arguments[:1] == ("up",) and "--console" not in arguments and "--help" not in arguments:
            arguments += ("--no-console",)
        with start_process(
            [*LACUNA, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **_environment(),
                "COLUMNS": str(columns),
                "XDG_CONFIG_HOME": str(tmp_path / ".config"),
                **environment,
            },
            cwd=tmp_path,
        ) as process:
            out, err = process.communicate(stdin)
            return Ran(_text(out), _text(err), process.wait())

    return run


def _text(printed: bytes) -> str:
    return printed.decode(errors="surrogateescape")


@pytest.fixture
def refused(lacuna: Command) -> Refusal:
    """A function that runs a command that must fail with one line on standard error, and returns that line.¶Warnings
    that the process was stopped for a while by a busy machine are ignored.
    """

    def run(*arguments: str, code: int = 1, **environment: str) -> str:
        ran = lacuna(*arguments, **environment)
        assert ran.code == code, ran
        assert ran.out == ""
        (line,) = without_warnings(ran.err)
        assert line.startswith("lacuna: ")
        return line.removeprefix("lacuna: ").strip()

    return run


@pytest.fixture
def ask(lacuna: Command, lacuna_cluster: Cluster) -> Command:
    """A function that runs a command against the cluster. The command must succeed."""

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        ran = lacuna(*arguments, stdin=stdin, LACUNA_BOOTSTRAP=lacuna_cluster.bootstrap)
        assert (ran.code, ran.err) == (0, ""), ran
        return ran

    return run


@pytest.fixture
def asks(lacuna: Command, lacuna_cluster: Cluster) -> Callable[..., Any]:
    """A function that runs a command with --json against the cluster, and returns its output."""
    place = {
        "LACUNA_BOOTSTRAP": lacuna_cluster.bootstrap,
        "LACUNA_DATA": str(lacuna_cluster.data),
    }

    def run(*arguments: str) -> Any:
        ran = lacuna(*arguments, "--json", **place)
        assert (ran.code, ran.err) == (0, ""), ran
        return json.loads(ran.out)

    return run


@pytest.fixture
def refuse(refused: Refusal, lacuna_cluster: Cluster) -> Refusal:
    """A function that runs a command against the cluster. The command must fail with one line."""
    return partial(refused, LACUNA_BOOTSTRAP=lacuna_cluster.bootstrap)
