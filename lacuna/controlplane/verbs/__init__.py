"""The verbs: for each command, the function that decides it, and the ones that replay its journal records."""
