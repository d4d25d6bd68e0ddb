"""Keeps pytest from collecting tests in the files that the client matrix builds and downloads."""

collect_ignore = ["out"]
