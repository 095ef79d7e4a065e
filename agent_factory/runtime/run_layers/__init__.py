"""Layers around a whole run of an agent, from its input to its end or to its next pause."""
