"""The state of the state machine. Only the replays in `lacuna.controlplane.verbs` change its durable part."""
