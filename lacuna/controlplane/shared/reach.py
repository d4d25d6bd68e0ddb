"""Distinguishes the address of a control plane from the name of one that cannot be reached from other machines."""


def is_address(leader: str) -> bool:
    """Whether this is an address, rather than the name of a control plane that only its own machine can reach, which
    contains spaces (`local_name`).
    """
    return bool(leader) and " " not in leader
