"""The state of the control plane. Only the replays in `lacuna.controlplane.verbs` change its durable part."""
