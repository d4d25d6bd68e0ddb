"""How a commit fails, beside what every job's fails with."""

from pipeline.errors import PipelineError


class WriterFencedError(PipelineError):
    """A later driver has taken over: this one is a zombie, and nothing of its write was committed."""


class OutcomeUnknownError(PipelineError):
    """The last reply of a commit was lost for good: all of it was committed, or nothing."""
