"""Tests the sources of a cluster's keys, and the errors for unusable keys."""

import json
import logging
import os
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from lacuna.logstore.objects import StoreMisconfiguredError
from lacuna.logstore.objects.cluster_keys import KeyCommand, KeyFile, KeyMissingError, parse_keys
from tests.doubles.keys import keys_text, made_up, write_keys

KEY = b64encode(made_up("k1")).decode()


def test_keys_in_toml_and_in_json() -> None:
    of_toml = parse_keys(keys_text("k2", "k1", plaintext="read"), "FILE")
    values = {
        "current": "k2",
        "plaintext": "read",
        "keys": {each: b64encode(made_up(each)).decode() for each in ("k2", "k1")},
    }
    assert of_toml == parse_keys(json.dumps(values), "FILE")
    assert (of_toml.current, of_toml.reads_plaintext) == ("k2", True)
    assert of_toml.keys == {"k1": made_up("k1"), "k2": made_up("k2")}
    assert not parse_keys(keys_text("k1"), "FILE").reads_plaintext
    assert "k1" not in repr(of_toml)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"FILE has no \[keys\] table"),
        ("{", "FILE is neither TOML nor JSON"),
        (f"current = {KEY}", "FILE is neither TOML nor JSON"),
        (f'[keys]\nk1 = "{KEY}"', r"FILE: current must be one of the ids in the \[keys\] table: k1"),
        (f'current = "k2"\n[keys]\nk1 = "{KEY}"', r"current must be one of the ids in the \[keys\] table: k1"),
        (f'current = "k1"\n[keys]\nk1 = "{KEY[:-4]}"', "key 'k1' is not 32 bytes in base64: create one with `openssl"),
        (f'current = "k1"\n[keys]\nk1 = "*{KEY[1:]}"', "key 'k1' is not 32 bytes in base64"),
        ('current = "k1"\n[keys]\nk1 = 7', "key 'k1' is not 32 bytes in base64"),
        (f'current = "a/b"\n[keys]\n"a/b" = "{KEY}"', "'a/b' is not a valid key id"),
        (f'current = []\n[keys]\nk1 = "{KEY}"', "current must be one of the ids in the"),
        (f'current = "k1"\nplaintext = "no"\n[keys]\nk1 = "{KEY}"', 'plaintext must be "read" or "refuse"'),
        (f'curent = "k1"\n[keys]\nk1 = "{KEY}"', "has an unknown entry 'curent'"),
    ],
)  # fmt: skip
def test_what_are_no_keys(text: str, message: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match=message) as caught:
        parse_keys(text, "FILE")
    assert KEY[1:-4] not in str(caught.value)


def test_a_file_is_read_again_once_it_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_keys(tmp_path / "keys", ["k1"])
    file = KeyFile(str(path))
    with pytest.raises(KeyMissingError, match=f"with key 'k2', but {path} has only k1"):
        file.key("k2")
    write_keys(path, ["k2", "k1"])
    assert file.now().current == "k2"
    assert file.key("k1") == made_up("k1")
    write_keys(path, ["k3", "k2", "k1"])
    assert file.key("k3") == made_up("k3")
    path.write_text("half of")
    assert [file.now().current for _ in range(3)] == ["k3"] * 3
    path.unlink()
    assert file.key("k2") == made_up("k2")
    assert caplog.text.count("the encryption keys that were read earlier stay in use") == 1
    write_keys(path, ["k1"])
    assert file.now().current == "k1"


def test_readers_look_at_the_file_once_a_second(tmp_path: Path) -> None:
    path = write_keys(tmp_path / "keys", ["k1"], plaintext="read")
    time = 0.0
    file = KeyFile(str(path), lambda: time)
    write_keys(path, ["k1"], plaintext="refuse")
    assert file.now(1.0).reads_plaintext
    time = 1.0
    assert not file.now(1.0).reads_plaintext


def test_a_file_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_keys(tmp_path / "keys", ["k1"])
    KeyFile(str(path))
    assert not caplog.text
    path.chmod(0o640)
    if os.getuid() == 0:
        KeyFile(str(path))  # root's own, which a group may read
        assert not caplog.text
        os.chown(path, 12345, -1)
    with caplog.at_level(logging.WARNING):
        KeyFile(str(path))
    assert f"other users may read or change {path}" in caplog.text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreMisconfiguredError, match="none, cannot be read: No such file"):
        KeyFile(str(tmp_path / "none"))


def test_a_command_runs_again_for_a_key_that_is_not_known_but_not_all_the_time(
    tmp_path: Path,
) -> None:
    printed = tmp_path / "printed"
    printed.write_text(keys_text("k1"))
    runs = tmp_path / "runs"
    script = f"open({str(runs)!r}, 'a').write('x'); print(open({str(printed)!r}).read())"
    now = 0.0
    command = KeyCommand(f'{sys.executable} -c "{script}"', lambda: now)
    assert (command.now().current, command.key("k1")) == ("k1", made_up("k1"))
    printed.write_text(keys_text("k2", "k1"))
    with pytest.raises(KeyMissingError):
        command.key("k2")
    now = 11.0
    assert (command.key("k2"), command.now().current) == (made_up("k2"), "k2")
    for _ in range(3):
        with pytest.raises(
            KeyMissingError, match="the command that prints the cluster's keys has only"
        ):
            command.key("k9")
    assert runs.read_text() == "xx"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{os.devnull}/none --token=secret", "could not be run: Not a directory"),
        ('"half', "could not be run: ValueError"),
        (f"{sys.executable} -c 'raise SystemExit(3)' secret", "exited with status 3"),
        (
            f"{sys.executable} -c 'print(1)' secret",
            "prints the cluster's keys is neither TOML nor JSON",
        ),
    ],
)
def test_a_command_that_gives_no_keys(command: str, message: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match=message) as caught:
        KeyCommand(command)
    assert "secret" not in str(caught.value)
