"""The gateway: a member of a group that keeps what it is given in a log, and sends rows for others."""
