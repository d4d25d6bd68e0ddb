"""Checks whether a control plane can be reached at its address."""


def is_address(leader: str) -> bool:
    """Whether this is an address, and no name of a control plane on its own machine only (such names have spaces)."""
    return bool(leader) and " " not in leader
