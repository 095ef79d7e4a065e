"""Detect and replace personal data in text, for middleware and for shells."""
