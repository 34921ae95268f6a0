"""Classifiers and models for programs without torch: ONNX files, and a page that runs in any browser."""
