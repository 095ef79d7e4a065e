"""AgentMiddleware with its hooks, layers and flows, and the reader of its subclasses.

The modules are private; import the names from `agent_factory`.
"""
