"""What every other package builds on: errors, settings, secrets, TLS, addresses, and the pacing of blocking work."""
