"""What runs achieved, as one long table: run, group, measure, key, value, unit.

`catalogue` names every measure, `values` computes them with Spark, `comparison` holds runs against each other. A value
that a trace does not have the rows for is not there. docs/measures.md says how to add one.
"""
