"""The parts of the pure state machine: what it holds, how each command is decided, how records are
replayed.
"""
