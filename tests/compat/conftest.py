"""Keeps pytest from collecting tests in what the client matrix has built and fetched."""

collect_ignore = ["out"]
