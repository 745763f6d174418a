"""Messages to bytes and back: the only place that knows bytes.

A datagram is a fixed header, a body of one kind and a seal. Every length is checked against what is left
before anything is allocated, and what does not fit is refused with a named reason, never with an exception
that leaves this package.
"""
