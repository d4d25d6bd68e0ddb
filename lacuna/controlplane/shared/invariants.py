"""What holds whatever clients ask, and is checked in production: going on otherwise would lose or invent records."""


class InvariantBroken(ValueError):
    """The state contradicts itself, which is a fault of Lacuna. Nothing more may be decided from this state."""
