"""The errors of exports; each message is one line that says what to do."""

from lacuna.pipeline.errors import PipelineError


class DestinationError(PipelineError):
    """The destination is missing, cannot be written to, or holds other data."""


class NameTakenError(DestinationError):
    """The object to create already exists: another export was faster."""


class ExportRunningError(PipelineError):
    """Another export of the same topic to the same destination is under way."""


class UndecodableRecordError(PipelineError):
    """A key or value does not match its schema; the message names the topic, partition and offset."""
