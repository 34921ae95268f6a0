"""FEAT, trained on labelled photos of other classes of the same domain."""
