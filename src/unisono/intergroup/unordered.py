"""Unreliable unordered delivery (000 4.6): what comes is handed on, as it comes, while the application keeps up."""

from __future__ import annotations

from unisono.intergroup.casual import CasualReceiver


class Unordered(CasualReceiver):
    """This process as a receiver that is promised nothing but whole messages."""

    __slots__ = ()
