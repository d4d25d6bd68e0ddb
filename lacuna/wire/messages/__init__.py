"""A module for each API, all written by `lacuna.wire.generator`."""
