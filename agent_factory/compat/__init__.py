"""Values of langchain, converted to those of this library and back.

Its modules are private; import their names from `agent_factory`.
"""
