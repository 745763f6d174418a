"""State transfer: a newcomer gets the group's state from a member, as of a point that both share."""

from unisono.transfer.kept import Kept, Reach
from unisono.transfer.transfers import FIRST_REQUEST, Transfers

__all__ = ["FIRST_REQUEST", "Kept", "Reach", "Transfers"]
