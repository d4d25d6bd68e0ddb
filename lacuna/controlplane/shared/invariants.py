"""Invariants of the state, checked in production because continuing would lose or invent records."""


class InvariantBroken(ValueError):
    """The state contradicts itself because of a bug in Lacuna. No more decisions may be based on it."""
