"""Checks topic names as Kafka does, and rejects the names of Kafka's internal topics that Lacuna does not have."""

import re

from lacuna.controlplane.shared.internal_topics import KAFKAS_OWN

MAX_NAME_SIZE = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+\Z")


def is_legal(name: str) -> bool:
    """Whether `name` is 1 to 249 letters, digits, dots, underscores and hyphens, but not ".", ".." or KAFKAS_OWN."""
    return (
        len(name) <= MAX_NAME_SIZE
        and name not in (".", "..")
        and name not in KAFKAS_OWN
        and bool(_LEGAL.match(name))
    )
