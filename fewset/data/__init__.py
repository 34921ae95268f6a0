"""What models learn from and are scored on: image sets, and tables of features."""
