"""Moves a journal to another place, or restarts one after a loss."""
