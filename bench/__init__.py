"""The benchmarks, and the error that ends a measurement."""


class BenchError(Exception):
    """A client saw something that must not happen (lost records, an error, no progress), or a server did not start."""
