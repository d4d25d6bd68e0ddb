"""Runs `lacuna` commands in processes forked from one that has done the imports.

A line of JSON in: arguments, environment, folder, standard input. A line out: what it printed on each output, and its
exit code. Bytes that are not UTF-8 are passed as surrogates.
"""

import atexit
import gc
import json
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TypedDict

#: What commands import, but for what few of them need. Importing `lacuna.cli.console` looks at the environment, so that
#: each command must do it itself, and all that imports it.
SLOW_TO_IMPORT = (
    "botocore.session",
    "click",
    "confluent_kafka",
    "difflib",
    "lacuna.agent.health",
    "lacuna.cli.agent_options",
    "lacuna.cli.app",
    "lacuna.cli.config_options",
    "lacuna.controlplane.service",
    "lacuna.operating.embedded",
    "lacuna.operating.kafka",
    "lacuna.logstore.objects.s3",
    "lacuna.operating.moto",
    "lacuna.observing.agent",
    "lacuna.observing.control",
    "lacuna.observing.endpoint",
    "lacuna.pipeline.audit.job",
    "lacuna.pipeline.audit.report",
    "lacuna.logstore.objects.prices",
    "prometheus_client",
    "rich.console",
    "rich.logging",
    "rich.table",
    "uvloop",
)


class Asked(TypedDict):
    """A line that comes in."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    stdin: str


#: The exit code of a command that has ended; empty in the process that forks.
codes: list[int] = []


@atexit.register
def leave() -> None:
    """The last that runs: Python would clear each module now, and so copy its pages, longer than commands take."""
    if codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


def become(asked: Asked) -> None:
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["lacuna", *asked["arguments"]]
    try:
        import_module("lacuna.cli").main()
    except SystemExit as ended:
        codes.append(int(ended.code or 0))
        raise


def start(asked: Asked, folder: str) -> int:
    """Forks; the child comes back as the command, and ends as that does."""
    child = os.fork()
    if not child:
        os.dup2(os.open(Path(folder, "in"), os.O_RDONLY), 0)
        for number, name in enumerate(("out", "err"), 1):
            os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), number)
        become(asked)
    return child


def run(asked: Asked) -> list[str | int]:
    folder = tempfile.mkdtemp()
    Path(folder, "in").write_bytes(asked["stdin"].encode(errors="surrogateescape"))
    _, status = os.waitpid(start(asked, folder), 0)
    printed = [
        Path(folder, name).read_bytes().decode(errors="surrogateescape") for name in ("out", "err")
    ]
    shutil.rmtree(folder)
    return [*printed, os.waitstatus_to_exitcode(status)]


for name in SLOW_TO_IMPORT:
    import_module(name)
import_module("lacuna.agent.apis").discover()  # imports what serves each API
assert "lacuna.cli.console" not in sys.modules
gc.freeze()  # so that no child copies the pages of all modules as it ends: that took longer than the command
for line in sys.stdin:
    sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
    sys.stdout.flush()
