"""What a Spark master's URL may be, and whether one answers there."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pipeline.errors import PipelineError

#: Seconds until an address that does not answer counts as nobody's. Spark itself tries for a minute.
_ANSWERS_WITHIN: Final = 3.0
_STANDALONE: Final = "spark://"
_KNOWN: Final = re.compile(
    r"local"
    r"|local\[(?:\*|[1-9]\d*)(?:\s*,\s*[1-9]\d*)?\]"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://\S+"
    r"|yarn"
    r"|k8s://\S+"
)


def check_master(master: str) -> None:
    """Raises PipelineError unless `master` is a URL that Spark takes.

    One of the addresses of a spark:// URL has to answer, too.
    """
    if not _KNOWN.fullmatch(master):
        raise PipelineError(
            f"{master!r} is no Spark master: give local[*], local[N] (N processor cores of this "
            "machine), spark://HOST:PORT, yarn or k8s://URL"
        )
    if master.startswith(_STANDALONE):
        _probe(master, _addresses(master))


def is_local(master: str) -> bool:
    """Whether all of it runs in this machine's one JVM."""
    return re.fullmatch(r"local(?:\[.*\])?", master) is not None


def _addresses(master: str) -> list[tuple[str, int]]:
    """Of spark://HOST:PORT,HOST:PORT, as standby masters are named."""
    addresses = []
    for text in master.removeprefix(_STANDALONE).split(","):
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise PipelineError(
                f"{master!r} is no address of a Spark master: write spark://HOST:PORT (the port "
                "is 7077 if its owner did not choose another)"
            )
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


def _probe(master: str, addresses: list[tuple[str, int]]) -> None:
    with ThreadPoolExecutor(len(addresses), thread_name_prefix="probe") as executor:
        failures = list(executor.map(_failure, addresses))
    if all(failures):
        raise PipelineError(
            f"no Spark master answers at {master}: {failures[0]}; start one there, name another "
            "with --master, or leave --master out to run on this machine"
        )


def _failure(address: tuple[str, int]) -> str:
    """Why nobody can be reached there; empty where somebody can."""
    try:
        socket.create_connection(address, _ANSWERS_WITHIN).close()
    except TimeoutError:
        return f"nothing was heard for {_ANSWERS_WITHIN:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""
