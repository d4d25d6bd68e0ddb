"""The Kafka APIs, one file each; `registry` describes how a file registers its API."""
