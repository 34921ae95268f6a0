"""Recipes, runs and results: what ties a number to what made it."""
