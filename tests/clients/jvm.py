"""The Java programs of tests/java."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).parent.parent / "java"
STREAMS = PROJECT.parent / "compat" / "kafka-streams"

needs_jdk = pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="needs a JDK and Maven"
)


def compiled() -> list[str]:
    """Compile the programs, and return the command that runs one of them, without its name and arguments."""
    target = PROJECT / "target"
    goals = ["compile", "dependency:copy-dependencies", f"-DoutputDirectory={target / 'libs'}"]
    subprocess.run(["mvn", "-q", "-f", str(PROJECT / "pom.xml"), *goals], check=True)
    command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return [*command, "-cp", f"{target / 'classes'}:{target / 'libs'}/*"]


def streams(folder: pathlib.Path, *options: str) -> list[str]:
    """Compile the programs for Kafka Streams 4.4 into a folder, and return the command that runs one of them.

    Their groups use the streams protocol (KIP-1071).
    """
    libs = folder / "libs"
    goals = ["compile", "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
    version = ["-Dkafka.version=4.4.0", f"-Dout={folder}"]
    subprocess.run(["mvn", "-q", "-f", str(STREAMS / "pom.xml"), *version, *goals], check=True)
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-Dapp.protocol=streams", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return [*command, *options, "-cp", f"{folder / 'classes'}:{libs}/*"]
