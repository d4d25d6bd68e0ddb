"""The state of groups and committed offsets. `consumer` holds the consumer groups of KIP-848."""
