"""Tools: how they are sorted, given their arguments, called, and what their errors lead to.

Its modules are private; import their names from `agent_factory`.
"""
