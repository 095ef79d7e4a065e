"""How fast agents are, compared with langchain, with LangGraph, and with other settings.

`python -m benchmarks` measures and prints; README.md says what the figures mean.
"""
