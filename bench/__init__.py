"""The benchmarks, and the error that ends a measurement."""


class BenchError(Exception):
    """A client saw something that must not happen (such as lost records or an error), or a server did not start."""
