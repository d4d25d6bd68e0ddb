"""Moves a journal to a different place, or restarts one after a loss."""
