"""What the benchmark cannot go on with."""


class BenchError(Exception):
    """A client saw what must not be (lost records, an error, no progress), or a server did not start."""
