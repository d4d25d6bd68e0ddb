"""Tests what a new user reads first: help, `lacuna demo`, start messages, --verbose and health."""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from lacuna.cli.entries import ENTRIES
from lacuna.testing.ports import lasting_ports
from tests.lacuna import clients
from tests.lacuna.test_controlplane_and_agents import service

if TYPE_CHECKING:
    from lacuna.testing import Cluster
    from tests.lacuna.conftest import Command, Refusal


def test_the_list_of_commands(lacuna: Command) -> None:
    ran = lacuna("--help", columns=120)
    assert ran.code == 0
    listed = [line.split()[1] for line in ran.out.splitlines() if re.match("│ [-a-z]", line)]
    assert listed == ["--config", "--profile", "--version", "--help", *ENTRIES]
    assert "lacuna demo" in ran.out


@pytest.mark.slow
def test_the_list_imports_none_of_the_commands() -> None:
    """`lacuna --help` must print immediately, so it must not depend on slow imports."""
    script = (
        "import json, sys\n"
        "import lacuna.cli\n"
        "sys.argv = ['lacuna', '--help']\n"
        "try:\n    lacuna.cli.main()\n"
        "except SystemExit as ended:\n    assert not ended.code\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    slow = {f"lacuna.{room}" for room in ("agent", "controlplane", "logstore", "pipeline", "wire")}
    slow |= {
        "grpc",
        "boto3",
        "botocore",
        "confluent_kafka",
        "pyspark",
        "pyarrow",
        "pandas",
        "numpy",
    }
    assert not imported & slow


def test_without_arguments_it_is_the_help(lacuna: Command) -> None:
    ran = lacuna()
    assert "Usage: lacuna" in ran.out
    assert ran.code == 2


def test_the_version(lacuna: Command) -> None:
    assert lacuna("--version").out.startswith("lacuna 0.")


@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_explains_itself_as_the_list_does(lacuna: Command, name: str) -> None:
    ran = lacuna(name, "--help", columns=200)
    assert ran.code == 0
    assert ENTRIES[name].help in ran.out


@pytest.mark.parametrize("words", [(), ("up",), ("topics",), ("topics", "create")], ids=str)
def test_h_is_help(lacuna: Command, words: tuple[str, ...]) -> None:
    ran = lacuna(*words, "-h")
    assert ran.code == 0
    assert ran == lacuna(*words, "--help")


@pytest.mark.parametrize("name", ENTRIES)
def test_every_option_has_help(name: str) -> None:
    found = ENTRIES[name].load(name)
    for command in getattr(found, "commands", {name: found}).values():
        assert inspect.cleandoc(command.help or "")
        for option in command.params:
            assert option.name == "help" or option.help, f"{command.name} {option.name}"


def test_the_help_of_a_command_says_what_can_be_said(lacuna: Command) -> None:
    page = lacuna("up", "-h", columns=120).out
    rows = [" ".join(line.strip("│ ").split()) for line in page.splitlines()]
    workers = rows.index(
        "--workers -w INTEGER Number of processes that serve the port; at most one per core."
    )
    assert rows[workers + 1] == "[env var: LACUNA_WORKERS; default: 1; 1 to 256]"
    assert "[env var: LACUNA_DATA; default: data]" in rows
    assert "`" not in page
    arguments = lacuna("explain", "-h", columns=120).out
    assert "[default: 0; at least 0]" in arguments


def test_the_page_fits_the_terminal(lacuna: Command) -> None:
    for columns in (60, 80, 120):
        page = lacuna("export", "--help", columns=columns).out
        assert max(map(len, page.splitlines())) <= columns


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(lacuna: Command, shell: str) -> None:
    assert "_LACUNA_COMPLETE" in lacuna("completion", shell).out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lacuna trans", ["transactions"]),
        ("lacuna up --ac", ["--accept-loss"]),
        ("lacuna groups l", ["list", "lag"]),
        ("lacuna topics list --ou", ["--output"]),
    ],
)
def test_what_shells_are_told(lacuna: Command, words: str, expected: list[str]) -> None:
    """Commands, subcommands and options, as bash requests them."""
    asked = {"_LACUNA_COMPLETE": "bash_complete", "COMP_WORDS": words}
    ran = lacuna(**asked, COMP_CWORD=str(words.count(" ")))
    assert ran.out.split() == [f"plain,{each}" for each in expected]


def test_a_shell_that_is_not_known(refused: Refusal) -> None:
    assert "choose one of bash, zsh, fish" in refused("completion", "csh")


CLAIM = "Every claim above was checked against the records that the client read."


@pytest.mark.slow
def test_on_a_cluster_of_its_own(lacuna: Command) -> None:
    ran = lacuna("demo", columns=140, LACUNA_CONTROL="127.0.0.1:1")  # from some other cluster
    assert ran.code == 0, ran.err
    assert CLAIM in ran.out
    assert "a range in which every record was aborted" in ran.out
    assert "dropped: aborted; continues at 11" in ran.out, ran.out
    assert "filler: a control record that moves the consumer on to 11" in ran.out


@pytest.mark.slow
def test_on_a_running_cluster(lacuna: Command, lacuna_cluster: Cluster) -> None:
    ran = lacuna("demo", "--bootstrap", lacuna_cluster.bootstrap, columns=140)
    assert ran.code == 0, ran.err
    assert CLAIM in ran.out
    assert "what a read_committed consumer receives" in ran.out


def test_a_cluster_says_what_happens(tmp_path: Path) -> None:
    (port,) = lasting_ports(1)
    health = f"127.0.0.1:{port}"
    options = (f"--data={tmp_path / 'data'}", "--listen=127.0.0.1:0", f"--health={health}")
    with service("up", "--verbose", *options, "--console=127.0.0.1:0") as up:
        assert up.stdout is not None
        bootstrap = up.stdout.readline().removeprefix("bootstrap: ").strip()
        said = "".join(up.stdout.readline() for _ in range(6))
        for path in ("healthz", "readyz"):
            with urlopen(f"http://{health}/{path}", timeout=60) as answer:
                assert answer.read() == b"ok\n"
        console = re.search(r"console (http://127\.0\.0\.1:\d+)", said)
        assert console is not None
        with urlopen(f"{console[1]}/readyz", timeout=60) as answer:
            assert answer.read() == b"ok\n"
        producer = clients.transactional(bootstrap, "shop")
        clients.transact(producer, "orders", ["x"], commits=False)
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=280)
    assert f"serves  Kafka clients at {bootstrap}; topics are created when first used" in said
    assert f"data    {tmp_path}/data (new: records and journal)" in said
    assert f"health  http://{health}/readyz" in said
    for line in (
        f"agent {bootstrap} (node 1) has joined",
        "created orders (1)",
        "aborted the transaction of 'shop': its producer requested it",
        f"agent {bootstrap} (node 1) has left: it was shut down",
    ):
        assert f"INFO lacuna.controlplane: {line}\n" in err
