"""The errors of jobs. Each message is one line that says what to do. All can be pickled between processes."""


class PipelineError(Exception):
    """An error that the user who started the job can fix. The message says how."""


class JobInterrupted(PipelineError):
    """Ctrl-C interrupted the job."""


class DataLossError(PipelineError):
    """Data that the job needs is gone: retention or collection deleted it."""


class DamagedDataError(PipelineError):
    """Bytes in the bucket differ from those written; the message names the object and the range."""


class StaleMetadataError(PipelineError):
    """The metadata that a plan was based on has changed, so the job must plan again."""


class WriterFencedError(PipelineError):
    """A later driver has taken over, so this one is obsolete, and nothing from its write was committed."""


class OutcomeUnknownError(PipelineError):
    """The final reply to a commit was lost for good. Either everything was committed, or nothing was."""


class DestinationError(PipelineError):
    """The destination is missing, cannot be written to, or holds other data."""


class NameTakenError(DestinationError):
    """The object to create already exists, because another export was faster."""


class ExportRunningError(PipelineError):
    """Another export of the same topic to the same destination is under way."""


class UndecodableRecordError(PipelineError):
    """A key or value does not match its schema; the message names the topic, partition and offset."""
