"""Names of topics, as Kafka checks them, but for those of its own topics, which are no topics here."""

import re

from controlplane.topic_names import KAFKAS_OWN

MAX_NAME_SIZE = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+\Z")


def is_legal(name: str) -> bool:
    """1 to 249 letters, digits, dots, underscores and hyphens; neither "." nor ".." nor one of Kafka's own."""
    return (
        len(name) <= MAX_NAME_SIZE
        and name not in (".", "..")
        and name not in KAFKAS_OWN
        and bool(_LEGAL.match(name))
    )
