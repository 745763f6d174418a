"""The state of an application: written for newcomers, taken from members, and what waits meanwhile."""
