"""What `lacuna produce` and `lacuna consume` do with records, apart from the command line."""
