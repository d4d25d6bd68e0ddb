"""Compiles the program and downloads every kafka-clients version of clients.toml in one run of Maven.

Writes `target/classes` and, for each version, `target/versions/VERSION/target/libs`. Does nothing if they are newer
than their sources. Rows may call it concurrently, because a lock serializes the builds.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
CLIENTS = HERE.parent / "clients.toml"
VERSIONS = HERE / "target" / "versions"
DONE = VERSIONS / "done"
AGGREGATE = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lacuna</groupId>
  <artifactId>compat-java-all</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <modules>{modules}</modules>
</project>
"""


def versions() -> list[str]:
    """Return each kafka-clients version of clients.toml once. A row's version is "VERSION" or "VERSION (how)"."""
    clients = tomllib.loads(CLIENTS.read_text())["clients"]
    (rows,) = (client["versions"] for client in clients if client["folder"] == HERE.name)
    return list(dict.fromkeys(row["version"].split()[0] for row in rows))


def is_fresh() -> bool:
    """Return whether the sources are unchanged since the last run."""
    sources = [HERE / "pom.xml", CLIENTS, *(HERE / "src").rglob("*.java")]
    return DONE.exists() and all(path.stat().st_mtime < DONE.stat().st_mtime for path in sources)


def write_modules(wanted: Iterable[str]) -> Path:
    """Write a copy of pom.xml for each version, and a parent of all of them. Return the parent's path."""
    pom = (HERE / "pom.xml").read_text()
    modules = ["../.."]
    for version in wanted:
        folder = VERSIONS / version
        folder.mkdir(parents=True, exist_ok=True)
        text = pom.replace(">2.8.2</kafka.version>", f">{version}</kafka.version>")
        text = text.replace(">compat-java<", f">compat-java-{version}<")
        (folder / "pom.xml").write_text(text)
        modules.append(version)
    path = VERSIONS / "pom.xml"
    listed = "".join(f"<module>{module}</module>" for module in modules)
    path.write_text(AGGREGATE.format(modules=listed))
    return path


def main() -> int:
    VERSIONS.mkdir(parents=True, exist_ok=True)
    with (VERSIONS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_fresh():
            return 0
        pom = write_modules(versions())
        code = subprocess.run(["mvn", "-q", "-B", "-T", "2", "-f", str(pom), "compile"]).returncode
        if code == 0:
            DONE.touch()
        return code


if __name__ == "__main__":
    sys.exit(main())
