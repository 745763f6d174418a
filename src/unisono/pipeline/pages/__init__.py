"""Pages of runs: what a trace tells in words, tables and pictures."""
