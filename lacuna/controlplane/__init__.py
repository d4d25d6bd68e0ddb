"""The control plane: a pure state machine that decides commands, the journal, a gRPC service, and a client."""

import os

# This must be set before gRPC is imported. With gRPC's fork handlers, one in ten forked children, such as Spark's JVM,
# crashed (SIGSEGV) between fork and exec. The handlers are not needed, since every forked child calls exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
