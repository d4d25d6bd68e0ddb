"""How `lacuna produce` and `lacuna consume` write and read records."""
