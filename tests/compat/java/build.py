"""Compiles the program and brings every kafka-clients of client.toml, all in one run of Maven.

Leaves `target/classes` and, for each version, `target/versions/VERSION/target/libs`; does nothing where they are newer
than what they are made from. Rows call it one after the other or at once: a lock lets one of them work.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
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
    """Each kafka-clients of client.toml once; a row's version is "VERSION" or "VERSION (how)"."""
    rows = tomllib.loads((HERE / "client.toml").read_text())["versions"]
    return list(dict.fromkeys(row["version"].split()[0] for row in rows))


def is_fresh() -> bool:
    """Whether the last run saw the sources as they are."""
    sources = [HERE / "pom.xml", HERE / "client.toml", *(HERE / "src").rglob("*.java")]
    return DONE.exists() and all(path.stat().st_mtime < DONE.stat().st_mtime for path in sources)


def write_modules(wanted: Iterable[str]) -> Path:
    """A copy of pom.xml for each version and one that holds them together; the latter's path."""
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
