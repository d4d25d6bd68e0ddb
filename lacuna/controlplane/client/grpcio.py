"""Imports grpcio only when it is needed, since the import takes a tenth of a second and 20 MB of memory."""

import os
from typing import Any


def imported() -> Any:
    """Return the module `grpc`, including `grpc.aio`.

    Unless GRPC_VERBOSITY is set, its core writes nothing to standard error, because calls report their own errors.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc
    import grpc.aio

    return grpc
