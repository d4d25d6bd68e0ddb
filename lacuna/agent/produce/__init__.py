"""Produce: decode, check, buffer, write one segment for many producers, commit, answer.

The modules are `check` (validates batches), `buffer` (batches that wait for a flush), `gaps` (batches that must be sent
again before later ones), `moves` (producers that come from another agent), `recompress` (compression.type), `flush`
(segment, PUT, commit, verdicts) and `service` (a request from end to end).
"""
