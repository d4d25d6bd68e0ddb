"""The verbs: for each command, the function that decides it, and beside it those that replay its journal records."""
