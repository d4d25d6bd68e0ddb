"""The errors of jobs. Each message is one line that says what to do. All can be pickled between processes."""


class PipelineError(Exception):
    """An error that the user who started the job can fix; the message says how."""


class JobInterrupted(PipelineError):
    """Ctrl-C interrupted the job."""


class DataLossError(PipelineError):
    """Data that the job needs is gone: retention or collection deleted it."""


class DamagedDataError(PipelineError):
    """Bytes in the bucket differ from those written; the message names the object and the range."""


class StaleMetadataError(PipelineError):
    """The metadata that a plan was based on has changed, so the job must plan again."""
