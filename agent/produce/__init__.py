"""Produce: decode, check, buffer, write one segment for many producers, commit, answer.

`codec` (the wire, by hand), `check` (which batches enter), `buffer` (what waits for a flush), `gaps`
(what must come again first), `flush` (segment, PUT, commit, verdicts), `service` (a request from end
to end).
"""
