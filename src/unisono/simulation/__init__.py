"""The simulator: a whole group in one process, in virtual time, under faults, replayed by its seed."""
