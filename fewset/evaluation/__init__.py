"""Embed a split once, then score any number of tasks on the table."""
