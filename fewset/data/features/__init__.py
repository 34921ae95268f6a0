"""Tables of features: rows that were embedded before."""
