"""Imports grpcio, which takes a tenth of a second and 20 MB, only when it is needed."""

import os
from typing import Any


def imported() -> Any:
    """Return the module `grpc`, with `grpc.aio`.

    Its core writes nothing to standard error unless GRPC_VERBOSITY is set: calls report their errors themselves.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc
    import grpc.aio

    return grpc
