"""Moves a journal to another place, and restarts one after a loss."""
