"""How fast agents are: beside langchain's, beside LangGraph itself, and beside themselves.

`python -m benchmarks` measures and prints; README.md says what the figures mean.
"""
