"""Networks of encoders in torch, imported where torch computes them."""
