"""Virtual synchrony sessions: membership servers, a reliable FIFO core, the one-round algorithm (document 002)."""

from unisono.virtual_synchrony.servers.server import MembershipServer as MembershipServer
from unisono.virtual_synchrony.session.sessions import Sessions as Sessions
from unisono.virtual_synchrony.structured.client import ChargeSessions as ChargeSessions
from unisono.virtual_synchrony.structured.controller import Controller as Controller
