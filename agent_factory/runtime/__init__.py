"""Run time of an agent: its nodes, the calls inside them, and the routes between them.

Its modules are private.
"""
