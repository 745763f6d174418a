"""Membership servers: who is in which group, agreed in one round when nothing else changes (002 3.1)."""
