"""The runtime: drives the engines on real sockets, clocks and disks, inside an asyncio loop."""
