"""Scenarios on real processes: the same file, the same faults, the same audits; real sockets, real time, real signals.

Every member, server and controller is a process in a network namespace of its own. Its packets come out of the kernel
at a hub, which is the simulator's network run by the clock: so a link loses, delays, cuts and damages here just as it
does in simulation.
"""
