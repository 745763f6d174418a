"""Structured sessions: controllers take part in the algorithm, each for the clients that have a channel to it."""
