"""The metrics and the health of a running process, over HTTP.

Counters are plain integers in the parts that count. They become metrics only when a client requests `/metrics`.
"""
