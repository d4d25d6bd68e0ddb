"""Runs `lacuna` commands in processes forked from one that has done the imports. tests/forked.py uses it.

Its standard input is a socket. A message is JSON (`Asked`) with four files: the command's standard input and its two
outputs, and a pipe. It writes two 8-byte numbers to the pipe: the process id, and later the exit status in the format
of waitpid(2).
"""

import atexit
import gc
import json
import os
import signal
import socket
import sys
from importlib import import_module
from typing import TypedDict

#: What commands import, except for what few of them need. Importing `lacuna.cli.console` reads the environment, so each
#: command must import it, and whatever imports it, itself.
SLOW_TO_IMPORT = (
    "boto3",
    "click",
    "confluent_kafka",
    "difflib",
    "lacuna.agent.health",
    "lacuna.cli.agent_options",
    "lacuna.cli.app",
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

#: The maximum size of a message in bytes; it includes the environment.
LONGEST = 1 << 17


class Asked(TypedDict):
    arguments: list[str]
    environment: dict[str, str]
    folder: str


#: The exit code of a command that has ended; empty in the process that forks.
codes: list[int] = []
#: Where to write how each process ended.
waiting: dict[int, int] = {}


@atexit.register
def leave() -> None:
    """Exit without cleanup. Otherwise, Python would clear each module and thus copy its pages, which takes longer than
    most commands.
    """
    if codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


def become(asked: Asked, files: list[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)  # else other commands' pipes would remain open while this one runs
    # Those of the forking process were created for other kinds of files.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["lacuna", *asked["arguments"]]
    try:
        import_module("lacuna.cli").main()
    except SystemExit as ended:
        codes.append(int(ended.code or 0))
        raise


def start(asked: Asked, files: list[int], status: int) -> bool:
    """Fork. Return whether this is the child."""
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGCHLD}
    )  # until it is known whose end to report
    child = os.fork()
    if child:
        waiting[child] = status
        os.write(status, child.to_bytes(8, "big"))
    else:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for file in files if child else ():
        os.close(file)
    return not child


def reap(*_: object) -> None:
    while waiting:
        child, ended = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        status = waiting.pop(child)
        os.write(status, ended.to_bytes(8, "big"))
        os.close(status)


def serve() -> None:
    """Serve until the input ends. A child returns when its command returns, and ends in the same way."""
    asking = socket.socket(fileno=os.dup(0))
    while True:
        message, files, *_ = socket.recv_fds(asking, LONGEST, 4)
        if not message:
            return
        asked: Asked = json.loads(message)
        if start(asked, files[:3], files[3]):
            asking.detach()  # or its end would close the number, which the command may reuse
            become(asked, files[:3])
            return


for name in SLOW_TO_IMPORT:
    import_module(name)
import_module("lacuna.agent.apis").discover()  # imports what serves each API
assert "lacuna.cli.console" not in sys.modules
gc.freeze()  # so that no child copies the pages of all modules as it ends: that took longer than the command
signal.signal(signal.SIGCHLD, reap)
serve()
