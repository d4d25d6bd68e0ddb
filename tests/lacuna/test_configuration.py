"""Tests that every setting reaches its component from every source, and that an invalid one is rejected with
a reason.
"""

import asyncio
import importlib
import json
import os
import runpy
import socket
import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import click
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.security.settings import SecuritySettings
from lacuna.base.addresses import parse_address
from lacuna.base.setting import Setting, SettingsError, Value, as_text, settings_of
from lacuna.cli.app import app
from lacuna.cli.config_file import take_file, use_file
from lacuna.cli.entries import ENTRIES
from lacuna.cli.tables import AGENT, CONTROL_PLANE, all_keys, rows_of, service_settings
from lacuna.cli.tables import ROWS as ALL_ROWS
from lacuna.cli.up import _cluster_settings
from lacuna.controlplane.client import ControlTlsSettings
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.operating.embedded import EmbeddedCluster
from tests.agent.harness import RawClient
from tests.forked import ForkedCluster
from tests.lacuna import clients
from tests.lacuna.conftest import Command, Refusal
from tests.messages import nested

#: The settings of each command's parts.
TABLES = {
    "up": rows_of(AGENT + CONTROL_PLANE),
    "agent": rows_of(AGENT),
    "controlplane": rows_of(CONTROL_PLANE),
}
ROWS = TABLES["up"]
ROOT = Path(__file__).resolve().parents[2]


def other(row: Setting) -> Value:
    """Return a value for a setting other than its default."""
    if isinstance(row.default, bool):
        return not row.default
    if row.choices:
        return next(each for each in row.choices if each != row.default)
    if isinstance(row.default, str):
        return "other"
    return row.default - 1 if row.default > row.least else row.default + 1


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LACUNA_")]:
        monkeypatch.delenv(name)


def started(monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str) -> partial[Any]:
    """Return the function, with its arguments, that a command would run in its event loop."""
    mains: list[partial[Any]] = []
    module = importlib.import_module(f"lacuna.cli.{command}")
    monkeypatch.setattr(module, "run", lambda main, **_: mains.append(main))
    app.main([command, *arguments], prog_name="lacuna", standalone_mode=False)
    return mains[0]


def parts_of(main: partial[Any], command: str) -> Iterator[object]:
    """Return the settings that a command passes to its components."""
    if command == "controlplane":
        configuration = main.args[0]
        service = service_settings(configuration)
        yield from (service.runtime, service.tls, service.authorizer)
        yield configuration.make(GroupSettings)
        yield configuration.make(ProducerSettings)
        return
    options = main.args[0]
    parts = options.parts()
    yield from (parts.agent, parts.security, parts.fetch, parts.produce, parts.housekeeping)
    yield parts.housekeeping.merge
    if command == "agent":
        yield main.args[1].tls
    if command == "up":
        made = _cluster_settings(*main.args[:3])
        yield made.service.runtime
        yield made.service.tls
        yield made.service.authorizer
        yield made.groups
        yield made.producers


def values_of(parts: Iterator[object]) -> dict[str, Value]:
    """Return the components' values by setting key."""
    return {
        row.key: getattr(part, name)
        for part in parts
        for name, row in settings_of(type(part)).items()
    }


WHERE = {
    "up": ["--data=d"],
    "agent": ["--control=127.0.0.1:1", "--objects=d"],
    "controlplane": ["--data=d"],
}


@pytest.mark.parametrize(
    ("command", "key"), [(command, key) for command, rows in TABLES.items() for key in rows]
)
def test_every_setting_reaches_its_part(
    command: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    value = other(ROWS[key])
    main = started(monkeypatch, command, *WHERE[command], f"--set={key}={as_text(value)}")
    defaults = {each: row.default for each, row in TABLES[command].items()}
    assert values_of(parts_of(main, command)) == defaults | {key: value}


@pytest.mark.parametrize("source", ["environment", "file"])
@pytest.mark.parametrize("command", TABLES)
def test_every_setting_is_read_from_every_source(
    command: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = {key: other(row) for key, row in TABLES[command].items()}
    lines = []
    for key, value in wanted.items():
        if source == "environment":
            monkeypatch.setenv(ROWS[key].variable, as_text(value))
        lines.append(f"{key} = " + (f'"{value}"' if isinstance(value, str) else as_text(value)))
    if source == "file":
        (tmp_path / "lacuna.toml").write_text("\n".join(lines))
        monkeypatch.setenv("LACUNA_CONFIG", "lacuna.toml")
    main = started(monkeypatch, command, *WHERE[command])
    assert values_of(parts_of(main, command)) == wanted


OPTIONS = {
    "controlplane.ssl.certificate.location": (["--control-tls-cert=c"], "c"),
    "controlplane.ssl.key.location": (["--control-tls-key=k"], "k"),
    "controlplane.ssl.ca.location": (["--control-tls-ca=a"], "a"),
    "broker.rack": (["--zone=a"], "a"),
    "auto.create.topics.enable": (["--no-auto-create"], False),
    "num.partitions": (["--partitions=7"], 7),
    "fetch.cache.bytes": (["--cache-bytes=9MiB"], 9 << 20),
    "produce.flush.interval.ms": (["--flush-ms=7"], 7),
    "requests.budget": (["--requests-budget=11"], 11),
    "ssl.certificate.location": (["--tls-cert=c.pem"], "c.pem"),
    "ssl.key.location": (["--tls-key=k.pem"], "k.pem"),
    "ssl.ca.location": (["--tls-ca=a.pem"], "a.pem"),
    "sasl.users.file": (["--users-file=u.toml"], "u.toml"),
    "authorizer.class.name": (["--authorizer"], STANDARD_AUTHORIZER),
    "super.users": (["--super-user=User:a"], "User:a"),
}


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (command, key)
        for command in ("up", "agent")
        for key, row in ROWS.items()
        # The parts of `lacuna up` are in one process, and need no certificates.
        if row.option and not (command == "up" and row.option.startswith("--control-tls"))
    ],
)
def test_every_option_reaches_its_part(
    command: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, value = OPTIONS[key]
    assert arguments[0].startswith(ROWS[key].option)
    main = started(monkeypatch, command, *WHERE[command], *arguments)
    assert values_of(parts_of(main, command))[key] == value


async def test_a_cluster_runs_with_what_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets everything except security settings, which need files, and reads the values back from a running cluster."""
    monkeypatch.chdir(tmp_path)
    of_security = {
        row.key
        for kind in (SecuritySettings, ControlTlsSettings)
        for row in settings_of(kind).values()
    }
    wanted = {key: other(row) for key, row in ROWS.items() if key not in of_security}
    arguments = [f"--set={key}={as_text(value)}" for key, value in wanted.items()]
    *given, _, _ = started(monkeypatch, "up", "--data=d", "--listen=127.0.0.1:0", *arguments).args
    cluster = EmbeddedCluster(_cluster_settings(*given))
    await cluster.start()
    try:
        agent, runtime = cluster.agents[0], cluster.running.runtime
        assert agent.housekeeping is not None
        housekeeping = agent.housekeeping
        parts = (
            agent.context.settings,
            agent.context.fetch.settings,
            agent.context.produce.settings,
            housekeeping._settings,
            housekeeping.merger._settings,
            runtime._settings,
            runtime._state.groups.settings,
            runtime._state.windows.settings,
        )
        assert values_of(iter(parts)) == wanted
    finally:
        await cluster.stop()


@pytest.mark.slow
def test_an_option_counts_before_set_before_the_environment_before_the_file(
    lacuna: Command, tmp_path: Path
) -> None:
    (tmp_path / "lacuna.toml").write_text("num.partitions = 2\nworkers = 2\n")
    file = ["--config=lacuna.toml"]
    environment = {"LACUNA_NUM_PARTITIONS": "3", "LACUNA_WORKERS": "3"}
    typed = ["--partitions=5", "--workers=5"]

    def printed(*arguments: str, file: Sequence[str] = (), **variables: str) -> set[str]:
        ran = lacuna(*file, "up", "--print-config", *arguments, **variables)
        return {line for line in ran.out.splitlines() if line.startswith(("num.", "workers"))}

    assert printed() == {"num.partitions = 1  # default", "workers = 1  # default"}
    read = {"num.partitions = 2  # lacuna.toml", "workers = 2  # lacuna.toml"}
    assert printed(file=file) == printed(LACUNA_CONFIG="lacuna.toml") == read
    assert printed(file=file, **environment) == {
        "num.partitions = 3  # LACUNA_NUM_PARTITIONS",
        "workers = 3  # LACUNA_WORKERS",
    }
    assigned = "--set=num.partitions=4"
    assert "num.partitions = 4  # --set" in printed(assigned, file=file, **environment)
    assert printed(assigned, *typed, file=file, **environment) == {
        "num.partitions = 5  # --partitions",
        "workers = 5  # --workers",
    }


def test_what_is_printed_is_a_config_file(lacuna: Command, tmp_path: Path) -> None:
    file = tmp_path / "lacuna.toml"
    first = lacuna("up", "--print-config", "--set=fetch.max.bytes=2MiB", "--zone=a").out
    file.write_text(first)
    assert tomllib.loads(first)["fetch"]["max"]["bytes"] == 2 << 20
    second = lacuna("--config=lacuna.toml", "up", "--print-config").out
    assert [line.split("  # ")[0] for line in second.splitlines()] == [
        line.split("  # ")[0] for line in first.splitlines()
    ]


def test_a_process_that_is_started_gets_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lacuna up --workers`: the arguments of the control plane and the workers carry the same settings."""
    monkeypatch.chdir(tmp_path)
    wanted = {key: other(row) for key, row in ROWS.items()}
    given = [f"--set={key}={as_text(value)}" for key, value in wanted.items()]
    options = started(monkeypatch, "up", "--data=d", *given).args[0]
    for command, kinds in {"agent": AGENT, "controlplane": CONTROL_PLANE}.items():
        rows = rows_of(kinds)
        arguments = options.configuration.arguments(*kinds)
        main = started(monkeypatch, command, *WHERE[command], *arguments)
        assert values_of(parts_of(main, command)) == {key: wanted[key] for key in rows}


MISTAKES = {
    "--set=foo": "--set foo: use KEY=VALUE",
    "--set=num.partition=3": "the setting num.partition does not exist: did you mean num.partitions?",
    "--set=objects=d": "--set objects: `lacuna up` does not have this setting",
    "--set=num.partitions=0": "--set: num.partitions is 0: choose a value from 1 to 100000",
    "--set=auto.create.topics.enable=yes": "auto.create.topics.enable is yes: choose true or false",
    "--set=fetch.max.bytes=12XB": "choose a value from 4096 to 2147483647, in bytes or with a unit, such as 16MiB",
    "--set=group.min.session.timeout.ms=1h": "group.min.session.timeout.ms is 3600000 and "
    "group.max.session.timeout.ms is 1800000",
}


@pytest.mark.parametrize(("argument", "hint"), MISTAKES.items())
def test_a_mistake_says_what_to_do(refused: Refusal, argument: str, hint: str) -> None:
    assert hint in refused("up", argument)


IN_A_FILE = {
    "num.partitons = 3": "lacuna.toml: the setting num.partitons does not exist: did you mean num.p",
    "[topics.crate]\npartitions = 3": "topics.crate.partitions does not exist: did you mean topics.create.p",
    "listeners = ['127.0.0.1:1', 'x']": "lacuna.toml: listeners is a list: specify a single value",
    "num.partitions = true": "lacuna.toml: num.partitions is true: choose a value from 1 to",
    "[num]\npartitions = 'x'": "lacuna.toml: num.partitions is x: choose a value from 1 to",
    "num.partitions = ": "the config file lacuna.toml is not TOML: Invalid value (at ",
}


@pytest.mark.parametrize(("text", "hint"), IN_A_FILE.items())
def test_a_mistake_in_the_file_names_it(
    refused: Refusal, tmp_path: Path, text: str, hint: str
) -> None:
    (tmp_path / "lacuna.toml").write_text(text)
    assert hint in refused("--config=lacuna.toml", "up")


def test_a_mistake_in_an_option_of_the_file_names_it(refused: Refusal, tmp_path: Path) -> None:
    (tmp_path / "lacuna.toml").write_text("workers = 'x'")
    said = refused("--config=lacuna.toml", "up")
    assert said == "lacuna.toml: workers is x: choose a value from 1 to 256"
    (tmp_path / "lacuna.toml").write_text("[consume]\ncount = 'x'")
    said = refused("--config=lacuna.toml", "consume", "t", code=2)
    assert said.startswith("Invalid value for 'consume.count' in the config file: 'x' is not a")


@pytest.mark.slow
def test_every_command_reads_the_file(refused: Refusal, tmp_path: Path) -> None:
    """An option overrides its variable, which overrides the file."""
    (tmp_path / "lacuna.toml").write_text(
        'bootstrap = "127.0.0.1:1"\nnum.partitions = 3\n[groups.reset]\nto = "soon"\n'
    )
    file, variable = "--config=lacuna.toml", "LACUNA_BOOTSTRAP"
    assert "no agent answers at 127.0.0.1:1 " in refused(file, "topics", "list")
    assert ":1 " in refused("topics", "list", LACUNA_CONFIG="lacuna.toml")
    assert ":2 " in refused(file, "topics", "list", **{variable: "127.0.0.1:2"})
    typed = ("topics", "list", "-b", "127.0.0.1:3")
    assert ":3 " in refused(file, *typed, **{variable: "127.0.0.1:2"})
    assert "--to soon: use earliest" in refused(file, "groups", "reset", "g")


@pytest.mark.slow
def test_lists_and_flags_of_the_file(lacuna: Command, tmp_path: Path) -> None:
    (tmp_path / "lacuna.toml").write_text(
        '[topics.create]\nconfig = ["a=1", "b=2"]\n[transactions.list]\nstate = "Ongoing"\n'
        "[up]\nmoto = true\n"
    )

    def shown(*command: str) -> dict[str, tuple[str, str]]:
        ran = lacuna("-c", "lacuna.toml", "config", *command, "--json")
        rows = json.loads(ran.out)
        return {row["key"]: (row["value"], row["from"]) for row in rows}

    assert shown("topics", "create")["topics.create.config"] == ("['a=1', 'b=2']", "lacuna.toml")
    assert shown("transactions", "list")["transactions.list.state"][0] == "['Ongoing']"
    assert shown("up")["up.moto"] == ("true", "lacuna.toml")
    assert shown("up")["up.verbose"] == ("false", "default")


def test_a_file_with_keys_of_one_command_loads_no_other_command(tmp_path: Path) -> None:
    """Loading it would take half a second."""
    file = tmp_path / "lacuna.toml"
    file.write_text("bootstrap = 'h:1'\n")
    own = click.Option(["--bootstrap"], envvar="LACUNA_BOOTSTRAP")
    context = click.Context(click.Command("c", params=[own]), obj=pytest.fail)
    take_file(context, own, file)
    use_file(context)
    assert context.default_map == {"bootstrap": "h:1"}


def test_the_file_is_named_before_the_command(refused: Refusal) -> None:
    said = refused("up", "--config=a.toml", code=2)
    assert "put it before the command: lacuna --config FILE COMMAND" in said
    said = refused("--config=nowhere.toml", "topics", "list")
    assert said == "the config file nowhere.toml cannot be read: No such file or directory"


def test_an_option_of_a_setting_has_no_second_variable(lacuna: Command) -> None:
    """`--partitions` is the option of num.partitions, so its variable is LACUNA_NUM_PARTITIONS."""
    ran = lacuna("up", "--print-config", LACUNA_UP_PARTITIONS="7", LACUNA_UP_SET="foo")
    assert "num.partitions = 1  # default" in ran.out


def test_a_setting_of_another_command_is_refused(refused: Refusal) -> None:
    arguments = ["--control=127.0.0.1:1", "--objects=d", "--set=group.max.size=3"]
    assert "`lacuna agent` does not have this setting" in refused("agent", *arguments)


def test_what_is_typed_counts_before_a_place_in_the_environment(lacuna: Command) -> None:
    """LACUNA_BUCKET does not conflict with --objects, and neither does LACUNA_STORE, which jobs also read."""
    places = {"LACUNA_BUCKET": "b", "LACUNA_STORE": "s3://c", "LACUNA_CONTROL": "h:1"}
    ran = lacuna("agent", "--objects=d", "--print-config", **places)
    assert 'objects = "d"  # --objects\n' in ran.out
    assert 'bucket = ""  # default\n' in ran.out


def test_no_key_begins_another() -> None:
    """TOML reads dots as tables, so a key cannot have both a value and keys below it."""
    keys = all_keys()
    assert keys.issuperset(ALL_ROWS)
    assert not [(a, b) for a in keys for b in keys if b.startswith(f"{a}.")]


def test_every_setting_of_a_command_is_in_the_table() -> None:
    """A process that another one starts must not read these variables again."""
    for name, entry in ENTRIES.items():
        command = entry.load(name)
        for each in (command, *getattr(command, "commands", {}).values()):
            assert ALL_ROWS.items() >= getattr(each, "rows", {}).items(), name


def test_a_value_of_set_counts_as_the_option(lacuna: Command) -> None:
    ran = lacuna("up", "--print-config", "--set=data=d", "--set=workers=3", LACUNA_WORKERS="2")
    assert 'data = "d"  # --set\n' in ran.out
    assert "workers = 3  # --set\n" in ran.out


def test_the_page_is_written_from_the_table() -> None:
    """docs/configuration.md: run `python docs/draw_configuration.py` after a change."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_configuration.py"))
    assert (ROOT / "docs" / "configuration.md").read_text() == made["page"]()


FILE = """
num.partitions = 3
socket.request.max.bytes = "64KiB"
fetch.max.bytes = "8KiB"

[connections.max]
idle.ms = "1500ms"
"""


@pytest.mark.slow
def test_clients_notice_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests the effects of LACUNA_CONFIG on clients of `lacuna up`."""
    file = tmp_path / "lacuna.toml"
    file.write_text(FILE)
    monkeypatch.setenv("LACUNA_CONFIG", str(file))
    with ForkedCluster(tmp_path / "d") as up:
        admin = AdminClient({"bootstrap.servers": up.bootstrap})
        node = next(iter(admin.list_topics(timeout=60).brokers))
        broker = ConfigResource(ResourceType.BROKER, str(node))
        shown = admin.describe_configs([broker])[broker].result(60)
        expected = {
            "num.partitions": "3",
            "socket.request.max.bytes": "65536",
            "fetch.max.bytes": "8192",
            "connections.max.idle.ms": "1500",
        }
        assert {key: shown[key].value for key in expected} == expected
        assert {shown[key].source for key in expected} == {4}  # STATIC_BROKER_CONFIG
        assert shown["max.connections"].source == 5  # DEFAULT_CONFIG
        clients.send(clients.plain(up.bootstrap), "t", ["x"])
        assert len(admin.list_topics("t", timeout=60).topics["t"].partitions) == 3
        address = parse_address(up.bootstrap)
        begun = monotonic()
        with socket.create_connection(address, 60) as silent:
            assert silent.recv(1) == b""
        assert monotonic() - begun > 1
        with socket.create_connection(address, 60) as large:
            large.sendall((64 * 1024 + 1).to_bytes(4, "big"))
            assert large.recv(1) == b""
        _assert_answers_are_small(up.bootstrap)


def _assert_answers_are_small(bootstrap: str) -> None:
    """A client that requests 50 MiB gets at most 8 KiB of the available 40 KB."""
    producer = clients.plain(bootstrap, **{"batch.num.messages": 1})
    clients.send(producer, "t", ["y" * 5000] * 8, partition=1)
    answer = asyncio.run(_fetch(parse_address(bootstrap)[1]))
    records = answer.responses[0].partitions[0].records
    assert 5000 < sum(map(len, records)) <= 8192


async def _fetch(port: int) -> Any:
    """Return a Fetch response. Reconnects if the connection had been idle for too long."""
    while True:
        try:
            return await _fetch_once(await RawClient.connect(port))
        except (ConnectionError, asyncio.IncompleteReadError):
            continue


async def _fetch_once(client: RawClient) -> Any:
    largest = 50 << 20
    partition = nested(
        1, 4, "FetchPartition", partition=1, fetch_offset=0, partition_max_bytes=largest
    )
    try:
        return await client.ask(
            1,
            4,
            replica_id=-1,
            max_wait_ms=1000,
            min_bytes=1,
            max_bytes=largest,
            isolation_level=0,
            topics=(nested(1, 4, "FetchTopic", topic="t", partitions=(partition,)),),
        )
    finally:
        await client.close()


def test_a_setting_with_choices_takes_no_other() -> None:
    with pytest.raises(SettingsError, match="is yes: choose auto or on or off"):
        FetchSettings(zone_reads="yes")


def test_every_option_has_a_variable(lacuna: Command, tmp_path: Path) -> None:
    """`lacuna config` lists the variables with their effective values and sources."""
    (tmp_path / "lacuna.toml").write_text(
        'listeners = "127.0.0.1:1"\n"fetch.cache.bytes" = "1MiB"\n'
    )
    shown = lacuna(
        "config",
        "up",
        "--json",
        LACUNA_CONFIG="lacuna.toml",
        LACUNA_UP_MOTO="true",
        LACUNA_NUM_PARTITIONS="7",
    )
    rows = {row["option"] + row["key"]: row for row in json.loads(shown.out)}
    found = {
        name: (row["variable"], row["value"], row["from"])
        for name, row in rows.items()
        if row["from"] != "default"
    }
    assert found == {
        "--motoup.moto": ("LACUNA_UP_MOTO", "true", "LACUNA_UP_MOTO"),
        "--listenlisteners": ("LACUNA_LISTENERS", "127.0.0.1:1", "lacuna.toml"),
        "--config": ("LACUNA_CONFIG", "lacuna.toml", "LACUNA_CONFIG"),
        "--partitionsnum.partitions": ("LACUNA_NUM_PARTITIONS", "7", "LACUNA_NUM_PARTITIONS"),
        "--cache-bytesfetch.cache.bytes": (
            "LACUNA_FETCH_CACHE_BYTES",
            str(1 << 20),
            "lacuna.toml",
        ),
    }
    assert len({row["variable"] for row in rows.values()}) == len(rows)
    rows = {
        row["option"]: row
        for row in json.loads(lacuna("config", "groups", "reset", "-o", "json").out)
    }
    assert rows["--to"]["variable"] == "LACUNA_GROUPS_RESET_TO"
    assert rows["--bootstrap"]["variable"] == "LACUNA_BOOTSTRAP"
    said = lacuna("groups", "reset", "g", LACUNA_GROUPS_RESET_TO="soon")
    assert "--to soon: use earliest" in said.err


def test_config_of_no_command(refused: Refusal) -> None:
    assert refused("config", "groups", "nope") == (
        "the command groups nope does not exist: `lacuna --help` lists the commands"
    )


def test_variables_that_no_command_knows(lacuna: Command, tmp_path: Path) -> None:
    """They may be typos, unless they belong to other commands or are Kubernetes service variables."""
    fine = {
        "LACUNA_NUM_PARTITIONS": "3",
        "LACUNA_GROUPS_RESET_TO": "end",
        "LACUNA_DATA": str(tmp_path),
        "LACUNA_SERVICE_HOST": "10.0.0.1",
        "LACUNA_PORT_9092_TCP_ADDR": "10.0.0.1",
    }
    assert lacuna("doctor", **fine).err == ""
    ran = lacuna("doctor", **fine, LACUNA_BOOTSTRP="x", LACUNA_NUM_PARTITION="3")
    assert ran.code == 0
    first, second = ran.err.splitlines()
    assert first.endswith("LACUNA_BOOTSTRP, which no command reads: did you mean LACUNA_BOOTSTRAP?")
    assert second.endswith("did you mean LACUNA_NUM_PARTITIONS?")
