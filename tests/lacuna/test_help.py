"""What a newcomer reads first."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lacuna.cli.app import Commands

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command

CLUSTER = ["demo", "up", "topics", "groups", "transactions", "explain", "doctor"]
JOBS = ["compact", "export", "verify", "metadata"]
NAMES = [*CLUSTER, *JOBS, "controlplane", "agent"]


def test_the_list_of_commands(lacuna: Command) -> None:
    ran = lacuna("--help", columns=120)
    assert ran.code == 0
    listed = [line.split()[1] for line in ran.out.splitlines() if line.startswith("│ ")]
    assert listed == ["--version", "--help", *NAMES]
    assert "lacuna demo" in ran.out


def test_the_list_imports_none_of_the_commands() -> None:
    """`lacuna --help` answers at once, so nothing that is slow to import may hang on it."""
    script = (
        "import json, sys\n"
        "import lacuna.cli\n"
        "sys.argv = ['lacuna', '--help']\n"
        "try:\n    lacuna.cli.main()\n"
        "except SystemExit as ended:\n    assert not ended.code\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    slow = {"agent", "controlplane", "logstore", "grpc", "kio", "boto3", "confluent_kafka"}
    slow |= {"pipeline", "pyspark", "pyarrow", "pandas", "numpy"}
    assert not imported & slow


def test_without_arguments_it_is_the_help(lacuna: Command) -> None:
    ran = lacuna()
    assert "Usage: lacuna" in ran.out
    assert ran.code == 2


def test_the_version(lacuna: Command) -> None:
    assert lacuna("--version").out.startswith("lacuna 0.")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself_as_the_list_does(lacuna: Command, name: str) -> None:
    ran = lacuna(name, "--help", columns=200)
    assert ran.code == 0
    assert Commands.entries[name].help in ran.out


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_help(name: str) -> None:
    found = Commands.entries[name].load(name)
    for command in getattr(found, "commands", {name: found}).values():
        assert inspect.cleandoc(command.help or "")
        for option in command.params:
            assert option.name == "help" or option.help, f"{command.name} {option.name}"
