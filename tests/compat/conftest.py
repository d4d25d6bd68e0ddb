"""What the matrix has built and fetched is nothing to collect tests from."""

collect_ignore = ["out"]
