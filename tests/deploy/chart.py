"""Helpers for testing the chart: values, Helm, and rendered manifests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason=".ci/chart-tools installs it")

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "lacuna"
VALUES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("values.json").read_text())
LEAST = VALUES["least"]
#: Clients need a password, and all that is secret is in Secrets.
SECURE = VALUES["secure"]
#: Clients need a certificate, and nobody is told from anybody by the control planes.
CERTIFIED = VALUES["certified"]
#: Every value is another than in values.yaml, except one that another needs. Both kinds of pods are placed alike.
MOST, PLACED = VALUES["most"], VALUES["placed"]
MOST["controlplane"] |= PLACED
MOST["agent"] |= PLACED

Manifest = dict[str, Any]


def helm(folder: Path, command: str, values: dict[str, Any], *arguments: str) -> str:
    """Return Helm's output. Raises CalledProcessError."""
    ours = Path(sys.executable).with_name("helm")
    found = str(ours) if ours.exists() else shutil.which("helm")
    if found is None:
        pytest.skip("no helm here: .ci/chart-tools .venv installs it")
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    done = subprocess.run(
        [found, *command.split(), str(CHART), f"--values={path}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    return done.stdout


def rendered(folder: Path, values: dict[str, Any]) -> list[Manifest]:
    """Return the manifests that Helm renders for these values."""
    printed = helm(folder, "template release", values, "--namespace=lacuna")
    return [found for found in yaml.safe_load_all(printed) if found]


def of(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [found for found in manifests if found["kind"] == kind]


def pods(manifests: list[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield the metadata and the spec of each pod."""
    for found in manifests:
        if found["kind"] == "Pod":
            yield found["metadata"], found["spec"]
        elif "template" in found.get("spec", {}):
            template = found["spec"]["template"]
            yield template["metadata"], template["spec"]


def environment_of(spec: Manifest) -> dict[str, str]:
    """Return the variables of a pod's container, with "" for values that come from elsewhere."""
    (container,) = spec["containers"]
    return {each["name"]: each.get("value", "") for each in container.get("env", [])}


def expand(value: str, given: dict[str, str]) -> str:
    """Replace $(NAME) as Kubernetes does."""
    return re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], value)
