"""Measurements for the maintainers of fewset; `python -m benchmarks --help` lists them."""
