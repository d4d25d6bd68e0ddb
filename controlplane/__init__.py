"""Decides which records count: a pure state machine, a journal, a gRPC service, a client."""

import os

# Before gRPC is imported: with its handlers for forks one in ten children died (SIGSEGV) between fork and exec; Spark's
# JVM is such a child. Nothing here goes on in a forked child without exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
