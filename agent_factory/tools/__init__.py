"""Tools: sorted, given their arguments, called, and their errors handled.

The modules are private; import the names from `agent_factory`.
"""
