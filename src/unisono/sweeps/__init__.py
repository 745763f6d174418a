"""Sweeps: a scenario over many seeds and many settings, spread over the cores of a machine or a cluster."""
