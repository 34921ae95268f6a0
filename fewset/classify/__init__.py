"""What practitioners use: a handful of labelled photos becomes a classifier that says how far to trust it."""
