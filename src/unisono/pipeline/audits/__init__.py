"""The Spark form of every property: a function from the shared projections of a trace to its violations."""
