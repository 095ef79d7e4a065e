"""A plan as people and machines read it: text, drawings, JSON; a module for each form.

`Topology` has methods for them. Pages of other packages import the modules that draw.
"""
