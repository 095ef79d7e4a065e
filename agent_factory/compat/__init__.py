"""Adapters for middleware and values of LangChain.

Its modules are private; import their names from `agent_factory`.
"""
