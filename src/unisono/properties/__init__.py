"""What every run is held to: statements over a trace, who promises them, and the code that checks them.

Nothing here knows a protocol's engine; trace rows are the only input.
"""
