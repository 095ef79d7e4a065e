"""State of an agent: schemas, channels, histories and updates.

Its modules are private; import their names from `agent_factory`.
"""
