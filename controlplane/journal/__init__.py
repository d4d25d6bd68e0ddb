"""Where the control plane's decisions are kept: an ordered, durable list of record batches, and
snapshots.
"""
