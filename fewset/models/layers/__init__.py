"""Parts that several backbones are made of."""
