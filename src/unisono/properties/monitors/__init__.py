"""The online form of every property: a little work a row, state that can be stored and resumed at any row."""
