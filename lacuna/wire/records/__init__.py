"""A module for each kind of record in internal topics, all written by `lacuna.wire.generator`."""
