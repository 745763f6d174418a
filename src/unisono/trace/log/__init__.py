"""Retained logs: payloads addressed by offset, on disk, and read from elsewhere."""
