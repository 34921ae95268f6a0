"""Which photos to label next."""
