"""Layers around a whole run of an agent, from the input to the end or to the next pause."""
