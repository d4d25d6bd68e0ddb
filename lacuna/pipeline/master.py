"""Checks the URL of a Spark master, and whether a master answers there."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lacuna.pipeline.errors import PipelineError

#: Seconds after which an address that does not answer counts as unreachable. Spark itself tries for a minute.
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
    """Raises PipelineError unless `master` is a URL that Spark accepts.

    At least one of the addresses of a spark:// URL must answer too.
    """
    if not _KNOWN.fullmatch(master):
        raise PipelineError(
            f"{master!r} is not a Spark master: give local[*], local[N] (N processor cores of this "
            "machine), spark://HOST:PORT, yarn or k8s://URL"
        )
    if master.startswith(_STANDALONE):
        _probe(master, _addresses(master))


def is_local(master: str) -> bool:
    """Whether this master runs everything in one JVM on this machine."""
    return re.fullmatch(r"local(?:\[.*\])?", master) is not None


def _addresses(master: str) -> list[tuple[str, int]]:
    """The (host, port) pairs of spark://HOST:PORT[,HOST:PORT…]; further ones are standby masters."""
    addresses = []
    for text in master.removeprefix(_STANDALONE).split(","):
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise PipelineError(
                f"{master!r} is not the address of a Spark master: write spark://HOST:PORT (7077 is the "
                "default port)"
            )
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


def _probe(master: str, addresses: list[tuple[str, int]]) -> None:
    with ThreadPoolExecutor(len(addresses), thread_name_prefix="probe") as executor:
        failures = list(executor.map(_failure, addresses))
    if all(failures):
        raise PipelineError(
            f"no Spark master answers at {master}: {failures[0]}; start one there, give another address "
            "with --master, or leave --master out to run on this machine"
        )


def _failure(address: tuple[str, int]) -> str:
    """The reason why the address cannot be reached, or "" if it can."""
    try:
        socket.create_connection(address, _ANSWERS_WITHIN).close()
    except TimeoutError:
        return f"no answer within {_ANSWERS_WITHIN:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""
