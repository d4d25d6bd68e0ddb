"""The control plane: a pure state machine that decides commands, its journal, a gRPC service, and a client."""

import os

# This must be set before gRPC is imported: with gRPC's fork handlers, one in ten forked children, such as Spark's JVM,
# crashed (SIGSEGV) between fork and exec. We need no handlers, since every child that we fork calls exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
