"""The records of `lacuna produce` and `lacuna consume`, apart from the command line."""
