"""The errors of jobs. Each has a one-line message that says what to do, and can be pickled."""


class PipelineError(Exception):
    """An error that the user of a job can fix. The message says how."""


class JobInterrupted(PipelineError):
    """The job was interrupted with Ctrl-C."""


class DataLossError(PipelineError):
    """Retention or collection has deleted data that the job needs."""


class DamagedDataError(PipelineError):
    """Bytes in the bucket differ from those written. The message names the object and the range."""


class StaleMetadataError(PipelineError):
    """The metadata on which a plan was based has changed, so the job must plan again."""


class WriterFencedError(PipelineError):
    """A later driver has taken over from this one, and nothing of this one's write was committed."""


class OutcomeUnknownError(PipelineError):
    """The final reply to a commit has been lost for good. Either everything was committed, or nothing was."""


class DestinationError(PipelineError):
    """The destination is missing, cannot be written to, or contains other data."""


class NameTakenError(DestinationError):
    """The object to create already exists: another export was faster."""


class ExportRunningError(PipelineError):
    """Another export of the same topic to the same destination is in progress."""


class UndecodableRecordError(PipelineError):
    """A key or value does not match its schema. The message names the topic, partition and offset."""
