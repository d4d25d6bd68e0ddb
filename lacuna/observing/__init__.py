"""The metrics and health of a running process, over HTTP.

The parts of a process count in plain integers, which become metrics only when a client requests `/metrics`.
"""
