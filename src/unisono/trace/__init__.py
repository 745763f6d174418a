"""Traces: the schema of their rows, and the files that hold them."""
