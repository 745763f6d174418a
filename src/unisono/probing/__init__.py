"""Looking at a group from outside: asks its members what they are and do, and makes one picture of the answers.

`asker` is the engine that asks, round by round; `picture` is what a round shows, and the rates between two of them.
"""
