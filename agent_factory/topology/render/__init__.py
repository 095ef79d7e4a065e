"""A plan as people and machines read it: text, drawings, JSON."""
