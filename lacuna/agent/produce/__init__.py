"""Produce: decodes and checks batches, buffers them, writes one segment for many producers, commits it, and answers.

The modules are `check` (validates batches), `buffer` (batches waiting for a flush), `gaps` (batches that must be sent
again before later ones), `moves` (producers that come from another agent), `recompress` (compression.type), `flush`
(segment, PUT, commit and verdicts) and `service` (a request from end to end).
"""
