"""The benchmarks, and the error that ends a measurement."""


class BenchError(Exception):
    """A client saw something that must not happen, such as lost records, an error or no progress, or a server did not
    start."""
