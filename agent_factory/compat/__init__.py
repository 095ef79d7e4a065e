"""Adapters for middleware and values of LangChain; import their names from `agent_factory`."""
