"""Packages of others, unchanged, on langchain's agents and on ours: `make foreign` runs them."""
