"""The Java programs of tests/java."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).parent.parent / "java"

needs_jdk = pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="needs a JDK and Maven"
)


def compiled() -> list[str]:
    """Compile them, and return the command that runs one of them, without its name and arguments."""
    target = PROJECT / "target"
    goals = ["compile", "dependency:copy-dependencies", f"-DoutputDirectory={target / 'libs'}"]
    subprocess.run(["mvn", "-q", "-f", str(PROJECT / "pom.xml"), *goals], check=True)
    command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return [*command, "-cp", f"{target / 'classes'}:{target / 'libs'}/*"]
