"""Names of topics, as Kafka checks them."""

import re

MAX_NAME_SIZE = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+\Z")


def is_legal(name: str) -> bool:
    """1 to 249 letters, digits, dots, underscores and hyphens; neither "." nor ".."."""
    return len(name) <= MAX_NAME_SIZE and name not in (".", "..") and bool(_LEGAL.match(name))
