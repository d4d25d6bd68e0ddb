"""Checks whether a control plane can be reached at its address."""


def is_address(leader: str) -> bool:
    """Whether this is an address, rather than the name of a control plane that only its own machine can reach.

    Such a name has spaces (`local_name`).
    """
    return bool(leader) and " " not in leader
