"""Engines: who works on which job of a service, and when."""
