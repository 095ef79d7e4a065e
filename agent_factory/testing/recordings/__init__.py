"""Recorded model calls: cassettes, the model that writes them and the one that plays them."""
