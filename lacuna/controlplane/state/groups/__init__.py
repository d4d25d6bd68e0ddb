"""The state of groups and committed offsets. `consumer` has the consumer groups of KIP-848."""
