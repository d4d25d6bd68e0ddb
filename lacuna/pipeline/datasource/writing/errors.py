"""The errors that only commits of writes have."""

from lacuna.pipeline.errors import PipelineError


class WriterFencedError(PipelineError):
    """A later driver has taken over, so this one is obsolete, and nothing of its write was committed."""


class OutcomeUnknownError(PipelineError):
    """The final reply of a commit was permanently lost: either everything was committed, or nothing."""
