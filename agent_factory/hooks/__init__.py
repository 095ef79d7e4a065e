"""AgentMiddleware with its hooks, layers and flows, and how they are read from a class.

Its modules are private; import their names from `agent_factory`.
"""
