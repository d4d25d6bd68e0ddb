"""The Kafka APIs, one file each; `registry` says how a file registers."""
