"""Moves a journal to another place, and begins one anew after a loss."""
