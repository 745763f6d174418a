"""Spark itself: its Java, sessions on this machine and on clusters, the code that is shipped, work that is spread."""
