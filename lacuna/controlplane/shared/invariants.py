"""Invariants that hold for any request, checked in production because continuing would lose or invent records."""


class InvariantBroken(ValueError):
    """The state contradicts itself, which is a bug in Lacuna. No further decision may use this state."""
