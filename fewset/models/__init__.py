"""Backbone, adapter and head, and the model that they make."""
