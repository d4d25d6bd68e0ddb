"""How an export fails: one line that says what to do."""

from pipeline.errors import PipelineError


class DestinationError(PipelineError):
    """The place to write to is not there, is not ours to write, or is another's."""


class NameTakenError(DestinationError):
    """What was to be created is there already: somebody else was quicker."""


class ExportRunningError(PipelineError):
    """Another export of the same topic to the same destination is under way."""


class UndecodableRecordError(PipelineError):
    """A key or value is not what its schema says; the message names topic, partition and offset."""
