"""The benchmarks, and the error that ends a measurement."""


class BenchError(Exception):
    """A client observed something that must not happen, such as lost records, or a server did not start."""
