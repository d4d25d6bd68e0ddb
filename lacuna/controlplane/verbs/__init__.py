"""The verbs: for each command, the function that decides it, and the functions that replay its journal records."""
