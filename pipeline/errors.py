"""How the pipeline fails: one line that says what to do. All can be pickled between processes."""


class PipelineError(Exception):
    """Something that whoever started the job can mend; the message says how."""


class DataLossError(PipelineError):
    """What was asked for is no longer there: retention or a collection took it away."""


class DamagedDataError(PipelineError):
    """Bytes in the bucket that are not what was written; the message names the object and range."""


class StaleMetadataError(PipelineError):
    """The metadata that a plan was made from no longer holds: plan again."""
