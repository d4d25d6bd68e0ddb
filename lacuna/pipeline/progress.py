"""The interface through which a job reports its progress."""


class Progress:
    """Receives a job's progress, in any thread. This base class shows nothing."""

    def stage(self, text: str) -> None:
        """Describes the stage that begins now."""

    def expect(self, amount: int) -> None:
        """Adds `amount`, in bytes or tasks, to the work to do."""

    def advance(self, amount: int) -> None:
        """Reports that `amount` more of the work is done."""
