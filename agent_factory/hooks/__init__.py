"""What users write: AgentMiddleware, hooks, layers and flows, and how the engine reads them.

Its modules are private; import their names from `agent_factory`.
"""
