"""Caches that keep nothing alive: of classes and functions, and of objects by their identity."""
