"""Tests the units in deploy/systemd with systemd itself, and the variables in their environment files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lacuna.cli.tables import variables

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = ("lacuna-controlplane.service", "lacuna-agent.service")
#: Of 100, which is a service that may do everything.
EXPOSURE = 20


def analyze(*arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of systemd-analyze."""
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("no systemd here: apt-get install systemd")
    done = subprocess.run(
        [found, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
    )
    return done.returncode, done.stdout


def written(folder: Path, unit: str, *, old: str = "", new: str = "") -> str:
    """Write a copy of a unit with a command that exists here, and with `old` replaced. Return its path."""
    text = (FOLDER / unit).read_text().replace("/opt/lacuna/bin/lacuna", "/bin/true")
    assert old in text
    path = folder / unit
    path.write_text(text.replace(old, new) if old else text)
    return str(path)


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_has_nothing_against_a_unit(tmp_path: Path, unit: str) -> None:
    assert analyze("verify", "--man=no", written(tmp_path, unit)) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("Restart=always", "Restat=always", "Unknown key"),
        ("Type=notify", "Type=notified", "Failed to parse"),
        ("/bin/true", "/bin/there-is-no-such-command", "is not executable"),
    ],
)
def test_systemd_would_say_so(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    _, said = analyze("verify", "--man=no", written(tmp_path, UNITS[0], old=old, new=new))
    assert complaint in said


@pytest.mark.parametrize("unit", UNITS)
def test_a_service_may_do_little(tmp_path: Path, unit: str) -> None:
    threshold = f"--threshold={EXPOSURE}"
    code, said = analyze(
        "security", "--offline=true", "--no-pager", threshold, written(tmp_path, unit)
    )
    assert code == 0, said


@pytest.mark.parametrize("name", ["controlplane.env", "agent.env"])
def test_the_variables_of_an_environment_file_are_read(name: str) -> None:
    given = set(re.findall(r"^(LACUNA_\w+)=", (FOLDER / name).read_text(), re.MULTILINE))
    assert given
    assert given <= set(variables())
