"""What runs: the nodes of an agent, the calls inside them, and the routes between them.

Its modules are private.
"""
