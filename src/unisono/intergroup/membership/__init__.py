"""Agreed views: who is in the sender group, and where one view ends and the next begins (000 chapter 5, 003 7)."""
